"""The forward processes, their schedules and their scores, against matrix exponentials and enumeration."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from samplers.absorbing import (
    AbsorbingProcess,
    Constant,
    Cosine,
    CosineSquared,
    Geometric,
    Linear,
    LogLinear,
    Schedule,
    TabularDenoiser,
    UniformProcess,
    score_from_x0,
    x0_from_score,
)
from samplers.absorbing.testing import small_targets

SCHEDULES = [
    LogLinear(),
    LogLinear(1e-3),
    Cosine(),
    Cosine(1e-3),
    CosineSquared(),
    CosineSquared(1e-2),
    Linear(),
    Geometric(),
    Constant(5.0),
]
names = pytest.mark.parametrize("schedule", SCHEDULES, ids=str)


@names
def test_a_schedules_functions_are_one_function(schedule: Schedule) -> None:
    t = torch.linspace(0.02, 0.98, 25, dtype=torch.float64) * schedule.horizon
    step = 1e-6
    mu, sigma = schedule.mask_probability, schedule.sigma
    torch.testing.assert_close(schedule.alpha(t) + mu(t), torch.ones_like(t))
    torch.testing.assert_close(torch.exp(-sigma(t)), schedule.alpha(t))
    torch.testing.assert_close((sigma(t + step) - sigma(t - step)) / (2 * step), schedule.rate(t), rtol=1e-6, atol=0)
    slope = (mu(t + step).log() - mu(t - step).log()) / (2 * step)
    torch.testing.assert_close(slope, schedule.hazard(t), rtol=1e-6, atol=0)
    if not isinstance(schedule, Linear | Geometric):  # there mu rounds to 1 and forgets the time
        torch.testing.assert_close(schedule.time_at(mu(t)), t, rtol=1e-7, atol=0)
    early = t[:8]
    torch.testing.assert_close(schedule.time_at(mu(early)), early, rtol=1e-7, atol=0)


@names
def test_small_mask_probabilities_keep_their_relative_precision(schedule: Schedule) -> None:
    if isinstance(schedule, Geometric):
        assert float(schedule.mask_probability(0.0)) == pytest.approx(-math.expm1(-1e-4), rel=1e-12)
        return
    t = 1e-9 * schedule.horizon
    assert float(schedule.mask_probability(t)) == pytest.approx(float(schedule.sigma(t)), rel=1e-8)
    assert float(schedule.mask_probability(0.0)) == 0.0


@pytest.mark.parametrize("t", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("process", [AbsorbingProcess(3, 1, Constant(6.0)), UniformProcess(3, 1, Constant(6.0))])
def test_transitions_are_matrix_exponentials(process: AbsorbingProcess | UniformProcess, t: float) -> None:
    expected = torch.linalg.matrix_exp(process.rate_matrix() * t)
    torch.testing.assert_close(process.transition(t), expected, rtol=0, atol=1e-12)


def test_forward_columns_at_sigma_log_2() -> None:
    kernel = AbsorbingProcess(3, 1, Constant(4.0)).transition(math.log(2))
    torch.testing.assert_close(kernel[1], torch.tensor([0, 0.5, 0, 0.5], dtype=torch.float64))
    torch.testing.assert_close(kernel[3], torch.tensor([0, 0, 0, 1.0], dtype=torch.float64))
    rates = AbsorbingProcess(3, 1, Constant(4.0)).rate_matrix(1.0)
    assert rates[1].tolist() == [0.0, -1.0, 0.0, 1.0] and not rates[3].any()


def test_a_mask_inside_the_vocabulary_is_not_renumbered() -> None:
    process = AbsorbingProcess(4, 3, Constant(4.0), mask_id=1)
    assert process.num_states == 4 and process.clean_ids.tolist() == [0, 2, 3]
    torch.testing.assert_close(process.transition(2.0), torch.linalg.matrix_exp(2.0 * process.rate_matrix()))
    noisy = process.corrupt(torch.tensor([[0, 2, 3]]).repeat(1000, 1), 1.0)
    assert set(noisy[:, 1].tolist()) == {1, 2}


def _forward_law(process: AbsorbingProcess, law: Tensor, t: float) -> Tensor:
    """q_t by pushing a law on all states through the kernel of every token."""
    kernel = process.transition(t)
    for axis in range(law.dim()):
        law = torch.tensordot(law, kernel, dims=([axis], [0])).movedim(-1, axis)
    return law


def _on_all_states(pmf: Tensor) -> Tensor:
    law = torch.zeros([n + 1 for n in pmf.shape], dtype=torch.float64)
    law[tuple(slice(0, n) for n in pmf.shape)] = pmf
    return law


def _ratios(law: Tensor) -> list[tuple[Tensor, int, Tensor]]:
    """(x, i, q(x with token i = a) / q(x) for all a) for every state with token i masked."""
    size, result = law.shape[0] - 1, []
    for x in torch.cartesian_prod(*[torch.arange(size + 1)] * law.dim()):
        for i in (x == size).nonzero().flatten().tolist():
            moved = x.repeat(size, 1)
            moved[:, i] = torch.arange(size)
            result.append((x, i, law[tuple(moved.T)] / law[tuple(x)]))
    return result


@pytest.mark.parametrize("t", [0.05, 0.5, 3.0])
def test_scores_are_ratios_of_enumerated_marginals(t: float) -> None:
    pmf = small_targets()["dense_d3K2"]
    process, denoiser = AbsorbingProcess(2, 3, Constant(4.0)), TabularDenoiser(pmf)
    for x, i, ratio in _ratios(_forward_law(process, _on_all_states(pmf), t)):
        log_probs = denoiser(x[None], None, torch.tensor([[0, i]]))
        torch.testing.assert_close(score_from_x0(log_probs, t)[0], ratio, rtol=1e-12, atol=1e-12)


def test_scores_convert_back() -> None:
    log_probs = torch.randn(50, 7, dtype=torch.float64).log_softmax(-1)
    sigma = torch.logspace(-6, 1, 50, dtype=torch.float64)
    torch.testing.assert_close(x0_from_score(score_from_x0(log_probs, sigma), sigma), log_probs, rtol=1e-14, atol=1e-13)


@pytest.mark.parametrize(("sigma", "expected"), [(math.log(2), [0.7, 0.3]), (math.log(3), [0.35, 0.15])])
def test_score_values(sigma: float, expected: list[float]) -> None:
    log_probs = torch.tensor([0.7, 0.3], dtype=torch.float64).log()
    torch.testing.assert_close(score_from_x0(log_probs, sigma), torch.tensor(expected, dtype=torch.float64))


def test_the_score_factorises_into_time_and_conditional_unless_data_hold_masks() -> None:
    process = AbsorbingProcess(2, 3, Constant(8.0))

    def spread(law: Tensor) -> float:
        scaled = []
        for t in (0.1, 1.0, 4.0):
            factor = float(process.schedule.mask_probability(t) / process.schedule.alpha(t))
            scaled.append(torch.stack([r * factor for _, _, r in _ratios(_forward_law(process, law, t))]))
        return float((torch.stack(scaled) - scaled[0]).abs().max())

    dense_full = (1 + (7 * torch.arange(27) ** 2 + 3 * torch.arange(27) + 2) % 11).double().view(3, 3, 3)
    assert spread(_on_all_states(small_targets()["dense_d3K2"])) < 1e-12
    assert spread(dense_full / dense_full.sum()) > 1e-2


def test_reverse_rates_generate_the_reverse_process() -> None:
    pmf, t = small_targets()["dense_d3K2"], 0.7
    process, denoiser = AbsorbingProcess(2, 3, Constant(4.0)), TabularDenoiser(pmf)
    law = _forward_law(process, _on_all_states(pmf), t)
    drift = torch.zeros_like(law)
    for x, i, _ in _ratios(law):
        flow = score_from_x0(denoiser(x[None], None, torch.tensor([[0, i]])), t)[0] * law[tuple(x)]
        for a in range(2):
            y = x.clone()
            y[i] = a
            drift[tuple(y)] += flow[a]
        drift[tuple(x)] -= flow.sum()

    def error(h: float) -> float:
        return float((_forward_law(process, _on_all_states(pmf), t - h) - law - h * drift).abs().sum())

    assert error(0.01) / error(0.005) == pytest.approx(4.0, abs=0.05)


def test_noise_levels_are_per_row() -> None:
    process = AbsorbingProcess(5, 20_000)
    t = torch.tensor([0.1, 0.5, 0.9])
    noisy = process.corrupt(torch.zeros(3, 20_000, dtype=torch.long), t)
    masked = (noisy == 5).double().mean(1)
    torch.testing.assert_close(masked, t.double(), rtol=0, atol=0.012)


def test_corruption_is_keyed_by_row() -> None:
    process, tokens = AbsorbingProcess(5, 16), torch.randint(0, 5, (8, 16))
    whole = process.corrupt(tokens, 0.5, generator=torch.Generator().manual_seed(1))
    alone = process.corrupt(tokens[3:4], 0.5, generator=torch.Generator().manual_seed(1), first=3)
    assert torch.equal(whole[3:4], alone)


@pytest.mark.slow
def test_rare_masks_keep_their_probability() -> None:
    """4e8 tokens at p = 1e-9: 0.4 masks expected; P(more than 4) = 6e-5. float32 uniforms give about 24."""
    process, total = AbsorbingProcess(2, 1 << 14), 0
    tokens = torch.zeros(16, 1 << 14, dtype=torch.long)
    for _ in range(400_000_000 // tokens.numel() + 1):
        total += int((process.corrupt(tokens, 1e-9) == 2).sum())
    assert total <= 4
    many = sum(int((process.corrupt(tokens, 1e-5) == 2).sum()) for _ in range(40))
    assert abs(many - 40 * tokens.numel() * 1e-5) < 4.5 * (40 * tokens.numel() * 1e-5) ** 0.5


@pytest.mark.parametrize("strength", [0.0, 0.5, 1.0])
def test_remasking_probabilities_are_probabilities_and_keep_the_marginal(strength: float) -> None:
    process = AbsorbingProcess(3, 4)
    for t, s in ((0.99, 0.89), (0.5, 0.0), (0.01, 0.005), (1.0, 0.9)):
        remask, reveal = process.remasking(t, s, strength)
        alpha_t, alpha_s = float(process.schedule.alpha(t)), float(process.schedule.alpha(s))
        assert 0.0 <= float(remask) <= (min(1.0, (1 - alpha_s) / alpha_t) if alpha_t > 0 else 1.0) + 1e-15
        assert 0.0 <= float(reveal) <= 1.0
        kept = alpha_t * (1 - float(remask)) + (1 - alpha_t) * float(reveal)
        assert kept == pytest.approx(alpha_s, abs=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(vocab_size=0, length=3), "vocab_size=0"),
        (dict(vocab_size=3, length=-1), "length=-1"),
        (dict(vocab_size=3, length=3, mask_id=4), "mask_id=4"),
        (dict(vocab_size=3, length=3, mask_id=-1), "mask_id=-1"),
        (dict(vocab_size=1, length=3, mask_id=0), "clean token"),
    ],
)
def test_senseless_processes_are_refused(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AbsorbingProcess(**arguments)


@pytest.mark.parametrize(
    ("tokens", "error", "message"),
    [
        (torch.tensor([[0, 3, 1]]), ValueError, "mask id 3"),
        (torch.tensor([[0, 4, 1]]), ValueError, "id 4"),
        (torch.tensor([[0, -1, 1]]), ValueError, "id -1"),
        (torch.tensor([[0, 1]]), ValueError, r"expected \(B, 3\)"),
        (torch.tensor([0, 1, 2]), ValueError, r"expected \(B, 3\)"),
        (torch.tensor([[0.0, 1.0, 2.0]]), TypeError, "int64"),
        (torch.tensor([[0, 1, 2]], dtype=torch.int32), TypeError, "int64"),
    ],
)
@pytest.mark.usefixtures("as_user")
def test_bad_tokens_are_refused(tokens: Tensor, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        AbsorbingProcess(3, 3).corrupt(tokens, 0.5)


@pytest.mark.parametrize("t", [-0.1, 1.5, math.nan, torch.tensor([0.1, 0.2, 0.3])])
@pytest.mark.usefixtures("as_user")
def test_bad_times_are_refused(t: float | Tensor) -> None:
    with pytest.raises(ValueError, match="t h"):
        AbsorbingProcess(3, 3).corrupt(torch.zeros(2, 3, dtype=torch.long), t)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: LogLinear(1.0), "epsilon=1.0"),
        (lambda: Cosine(-0.1), "epsilon=-0.1"),
        (lambda: Linear(0.0), "sigma_max=0.0"),
        (lambda: Geometric(2.0, 1.0), "sigma_min=2.0"),
        (lambda: Constant(math.inf), "horizon=inf"),
    ],
)
def test_bad_schedules_are_refused(build: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()  # type: ignore[operator]


@pytest.mark.parametrize(
    "use",
    [
        lambda p: p.transition(1.5),
        lambda p: p.reveal_probability(0.2, 0.8),
        lambda p: p.reveal_probability(0.0, 0.0),
        lambda p: p.remasking(0.0, 0.0, 0.5),
        lambda p: UniformProcess(3, 3).transition(-0.1),
    ],
)
def test_times_outside_the_schedule_are_refused(use: object) -> None:
    with pytest.raises(ValueError, match=r"time"):
        use(AbsorbingProcess(3, 3))  # type: ignore[operator]


@pytest.mark.usefixtures("as_user")
def test_uniform_corruption_checks_its_tokens() -> None:
    process = UniformProcess(3, 4)
    for tokens, error in ((torch.tensor([[0, 7, 1, 1]]), ValueError), (torch.zeros(1, 9).long(), ValueError)):
        with pytest.raises(error, match="tokens h"):
            process.corrupt(tokens, 0.5)
    with pytest.raises(TypeError, match="schedule='cosine'"):
        AbsorbingProcess(2, 3, "cosine")  # type: ignore[arg-type]


def test_scores_at_no_noise_are_no_nan() -> None:
    score = score_from_x0(torch.tensor([1.0, 0.0]).log(), 0.0)
    assert score.tolist() == [math.inf, 0.0]


def test_uniform_corruption_has_its_marginals() -> None:
    process = UniformProcess(3, 50_000, Constant(4.0))
    noisy = process.corrupt(torch.ones(1, 50_000, dtype=torch.long), 0.8)
    frequency = torch.bincount(noisy[0], minlength=3) / 50_000
    torch.testing.assert_close(frequency.double(), process.transition(0.8)[1], rtol=0, atol=0.01)
