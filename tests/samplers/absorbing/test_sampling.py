"""The engine: batches, prompts, costs, common random numbers, precision, and bad input."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from torch import Tensor

from samplers.absorbing import (
    AbsorbingProcess,
    Constant,
    Cosine,
    CosineGrid,
    Denoiser,
    EqualError,
    Euler,
    FirstHitting,
    Geometric,
    Grid,
    KappaGrid,
    LogLinear,
    MarkovChainDenoiser,
    MixtureDenoiser,
    NextReaction,
    ParityDenoiser,
    PermutationDenoiser,
    ProductDenoiser,
    RevealFraction,
    Sampler,
    Schedule,
    TabularDenoiser,
    TauLeaping,
    Tweedie,
    UniformGrid,
    Uniformization,
    UniformProcess,
    information,
    run_stages,
)
from samplers.absorbing.reveal import draw_categories

FLIP = torch.tensor([[0.9, 0.1], [0.1, 0.9]], dtype=torch.float64)
HALF = torch.tensor([0.5, 0.5], dtype=torch.float64)


def _seeded(seed: int = 5) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _samplers(process: AbsorbingProcess) -> dict[str, Sampler]:
    return {
        "euler": Euler(process, steps=5),
        "tweedie": Tweedie(process, steps=5),
        "tau": TauLeaping(process, steps=5),
        "reject": TauLeaping(process, steps=5, multi_event="reject"),
        "same-token": TauLeaping(process, steps=5, multi_event="same-token"),
        "ordinal": TauLeaping(process, steps=5, multi_event="ordinal"),
        "surrogate": Tweedie(process, steps=5, start="surrogate"),
        "kappa": TauLeaping(process, grid=KappaGrid(0.4, 0.1)),
        "first_hitting": FirstHitting(process),
        "pairs": FirstHitting(process, tokens_per_call=2),
        "uniformization": Uniformization(process),
        "stopped": Uniformization(process, early_stop=0.2),
        "exact_start": Uniformization(process, start="exact"),
        "next_reaction": NextReaction(process),
    }


KINDS = list(_samplers(AbsorbingProcess(2, 6, Constant(3.0))))


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_of_a_batch_is_the_row_alone(kind: str) -> None:
    process = AbsorbingProcess(3, 9, Constant(3.0))
    torch.manual_seed(1)
    denoiser = MixtureDenoiser(torch.full((4,), 0.25), torch.rand(4, 9, 3).softmax(-1))
    sampler = _samplers(process)[kind]
    whole = sampler.sample(denoiser, 64, generator=_seeded())
    for row in (0, 17, 63):
        alone = sampler.sample(denoiser, 1, generator=_seeded(), first=row)
        assert torch.equal(alone.tokens[0], whole.tokens[row])
        assert alone.sequence_evaluations[0] == whole.sequence_evaluations[row]
        assert alone.candidates[0] == whole.candidates[row]
    assert whole.sequence_evaluations.max() <= whole.network_calls
    assert not torch.equal(whole.tokens, sampler.sample(denoiser, 64, generator=_seeded(6)).tokens)


@pytest.mark.parametrize("kind", KINDS)
def test_prompts_never_change_and_no_mask_is_left(kind: str) -> None:
    process = AbsorbingProcess(2, 6, Constant(3.0))
    denoiser = MarkovChainDenoiser(HALF, FLIP, 6)
    sampler = _samplers(process)[kind]
    prompts = torch.randint(0, 3, (50, 6))
    prompts[0], prompts[1] = 2, torch.tensor([0, 1, 0, 1, 1, 0])
    kept = prompts.clone()
    samples = sampler.sample(denoiser, 50, prompt=prompts, generator=_seeded())
    given = prompts < 2
    assert torch.equal(samples.tokens[given], prompts[given]) and torch.equal(prompts, kept)
    assert not (samples.tokens == process.mask_id).any()
    assert samples.sequence_evaluations[1] == 0  # nothing was free
    row = sampler.sample(denoiser, 1, prompt=prompts[7], generator=_seeded(), first=7)
    assert torch.equal(row.tokens[0], samples.tokens[7])


def test_prompts_condition_a_long_chain_exactly() -> None:
    """Between two given tokens at distance 200 of a chain: compare pair frequencies with the bridge."""
    length, count = 33, 20_000
    process, denoiser = AbsorbingProcess(2, length), MarkovChainDenoiser(HALF, FLIP, length)
    prompt = torch.full((length,), 2)
    prompt[0], prompt[-1] = 0, 1
    tokens = FirstHitting(process).sample(denoiser, count, prompt=prompt, generator=_seeded()).tokens
    power = torch.linalg.matrix_power(FLIP, 16)
    expected = float(power[0, 1] * power[1, 1] / torch.linalg.matrix_power(FLIP, 32)[0, 1])
    assert float(tokens[:, 16].double().mean()) == pytest.approx(expected, abs=4 * 0.5 / count**0.5)
    switches = (tokens.diff(dim=1) != 0).sum(1)
    assert (switches % 2 == 1).all()


class Counting:
    """A denoiser that counts what it is asked."""

    def __init__(self, inner: Denoiser, takes_time: bool = False) -> None:
        self.inner, self.takes_time = inner, takes_time
        self.rows: list[Tensor] = []
        self.positions: list[Tensor] = []
        self.times: list[Tensor] = []

    def __call__(self, tokens: Tensor, t: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        assert positions is not None and t is not None
        self.rows.append(tokens)
        self.positions.append(positions)
        self.times.append(t)
        return self.inner(tokens, None, positions)


@pytest.mark.parametrize("kind", [k for k in KINDS if k not in {"same-token", "ordinal"}])
def test_the_network_sees_only_what_is_revealed(kind: str) -> None:
    process = AbsorbingProcess(2, 12, Constant(3.0))
    counting = Counting(ProductDenoiser(HALF.expand(12, 2)))
    samples = _samplers(process)[kind].sample(counting, 40, generator=_seeded())
    assert samples.network_calls == len(counting.rows)
    assert int(samples.sequence_evaluations.sum()) == sum(len(rows) for rows in counting.rows)
    revealed = sum(len(p) for p in counting.positions)
    assert revealed == 40 * 12 or (kind == "surrogate" and revealed < 40 * 12)
    for rows, positions in zip(counting.rows, counting.positions, strict=True):
        assert (rows[positions[:, 0], positions[:, 1]] == 2).all()
        assert len(positions[:, 0].unique()) == len(rows)  # each row evaluated reveals something
    for times in counting.times:
        assert float(times.min()) >= 0.0 and float(times.max()) <= 3.0


def test_laziness_does_not_change_the_output() -> None:
    """A loop that asks the network for every row and place at every step, with the same clocks and draws."""
    process, torch_seed = AbsorbingProcess(3, 7), 3
    torch.manual_seed(torch_seed)
    denoiser = MixtureDenoiser(torch.full((3,), 1 / 3), torch.rand(3, 7, 3).softmax(-1))
    sampler = Tweedie(process, steps=6)
    lazy = sampler.sample(denoiser, 30, generator=_seeded())

    class Eager(Counting):
        def __call__(self, tokens: Tensor, t: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
            assert positions is not None
            return self.inner(tokens)[positions[:, 0], positions[:, 1]]

    assert torch.equal(sampler.sample(Eager(denoiser), 30, generator=_seeded()).tokens, lazy.tokens)
    for policy in ("same-token", "ordinal"):  # these remember the predictions of rows that did not change
        leaping = TauLeaping(process, steps=40, multi_event=policy)
        remembering, asking = Counting(denoiser), Counting(denoiser, takes_time=True)
        remembered = leaping.sample(remembering, 30, generator=_seeded())
        asked = leaping.sample(asking, 30, generator=_seeded())
        assert torch.equal(remembered.tokens, asked.tokens)
        assert int(remembered.sequence_evaluations.sum()) < int(asked.sequence_evaluations.sum())


@pytest.mark.parametrize(("length", "steps"), [(20, 64), (8, 8), (256, 128)])
def test_lazy_calls_have_their_mean(length: int, steps: int) -> None:
    rows = 4000
    process, denoiser = AbsorbingProcess(2, length), ProductDenoiser(HALF.expand(length, 2))
    evaluations = Tweedie(process, steps=steps).sample(denoiser, rows, generator=_seeded()).sequence_evaluations
    expected = steps * (1 - (1 - 1 / steps) ** length)
    values = evaluations.double()
    assert abs(float(values.mean()) - expected) < 4 * float(values.std()) / rows**0.5 + 1e-9


def test_twice_the_steps_reuse_the_reveal_times() -> None:
    """Common random numbers: the stage of every token at N steps is that at 2N steps, halved."""
    process, denoiser = AbsorbingProcess(2, 50), Counting(ProductDenoiser(HALF.expand(50, 2)))

    def stages(steps: int) -> Tensor:
        counting = Counting(denoiser.inner, takes_time=True)
        Tweedie(process, steps=steps).sample(counting, 1, generator=_seeded())
        stage = torch.full((50,), -1)
        for times, positions in zip(counting.times, counting.positions, strict=True):
            stage[positions[:, 1]] = round(steps * (1 - float(times[0])))
        return stage

    coarse, fine = stages(8), stages(16)
    assert torch.equal(coarse, fine // 2)


def test_coupled_samples_bound_the_total_variation(targets: dict[str, Tensor]) -> None:
    """TV(p_N, q0) <= P(x_N != x_exact), from shared clocks and draws."""
    pmf = targets["ising_ring_d4"]
    process, denoiser = AbsorbingProcess(2, 4), TabularDenoiser(pmf)
    exact = FirstHitting(process).sample(denoiser, 50_000, generator=_seeded()).tokens
    assert torch.equal(exact, NextReaction(process).sample(denoiser, 50_000, generator=_seeded()).tokens)
    differ = []
    for steps in (2, 4, 8, 16):
        leaping = Tweedie(process, steps=steps).sample(denoiser, 50_000, generator=_seeded()).tokens
        differ.append(float((leaping != exact).any(1).double().mean()))
    true = [0.1706113539, 0.08971564476, 0.04589881128, 0.02320196498]
    assert all(bound > tv for bound, tv in zip(differ, true, strict=True))
    assert differ[0] > differ[1] > differ[2] > differ[3] and differ[3] < 3 * true[3]


@pytest.mark.parametrize(("length", "horizon", "delta"), [(20, 6.0, 0.01), (256, 8.0, 0.01), (1024, 12.0, 1e-3)])
def test_uniformization_counts_what_theory_says(length: int, horizon: float, delta: float) -> None:
    rows = 4000 if length < 256 else 500
    process = AbsorbingProcess(2, length, Constant(horizon))
    sampler = Uniformization(process, early_stop=delta, fill=False)
    samples = sampler.sample(Ready(rows, 2), rows, generator=_seeded())
    mean = length * math.log((1 - math.exp(-horizon)) / (1 - math.exp(-delta)))
    candidates = samples.candidates.double()
    assert abs(float(candidates.mean()) - mean) < 4 * (mean / rows) ** 0.5
    assert abs(float(candidates.var()) / mean - 1) < 4 * (2 / rows) ** 0.5 + 4 / (mean * rows) ** 0.5
    chance = 1 - (1 - math.exp(-delta)) / (1 - math.exp(-horizon))
    accepted = samples.sequence_evaluations
    assert abs(float(accepted.double().mean()) - length * chance) < 4 * (length * chance * (1 - chance) / rows) ** 0.5
    counts = torch.bincount(length - accepted).double()
    law = torch.tensor(scipy.stats.binom.pmf(range(len(counts)), length, 1 - chance)) * rows
    keep = law > 5
    statistic = float(((counts - law)[keep] ** 2 / law[keep]).sum())
    assert scipy.stats.chi2.sf(statistic, int(keep.sum())) > 1e-4
    assert samples.violations == 0


def test_an_unbounded_window_counts_candidates_until_the_last_reveal() -> None:
    process, denoiser = AbsorbingProcess(2, 20), ProductDenoiser(HALF.expand(20, 2))
    samples = Uniformization(process).sample(denoiser, 4000, generator=_seeded())
    mean = 20 * sum(1 / k for k in range(1, 21))
    values = samples.candidates.double()
    assert abs(float(values.mean()) - mean) < 4 * float(values.std()) / 4000**0.5
    assert (samples.sequence_evaluations == 20).all() and samples.network_calls == 20


def test_rows_with_nothing_left_have_no_candidates() -> None:
    """Everything given, or revealed by the start already: the unbounded window ends where it begins."""
    process, denoiser = AbsorbingProcess(2, 2, Constant(0.1)), ProductDenoiser(HALF.expand(2, 2))
    prompt = torch.tensor([[0, 1], [2, 1], [2, 2]])
    samples = Uniformization(process).sample(denoiser, 3, prompt=prompt, generator=_seeded())
    assert samples.candidates.tolist()[:2] == [0, 1] and samples.candidates[2] >= 2
    samples = Uniformization(process, start="exact").sample(denoiser, 2000, generator=_seeded())
    assert samples.candidates.min() == 0  # most rows start without masks


@pytest.mark.parametrize("start", ["mask", "surrogate", "exact"])
def test_candidates_are_those_of_the_window_alone(start: Any) -> None:
    process, stub = AbsorbingProcess(2, 30, Constant(2.0)), Ready(4000 * 30, 2)
    mean = 30 * math.log(-math.expm1(-2.0) / -math.expm1(-0.5))
    for fill in (True, False):
        sampler = Uniformization(process, early_stop=0.5, fill=fill, start=start)
        candidates = sampler.sample(stub, 4000, generator=_seeded()).candidates.double()
        assert abs(float(candidates.mean()) - mean) < 4 * (mean / 4000) ** 0.5
        assert abs(float(candidates.var()) / mean - 1) < 4 * (2 / 4000) ** 0.5 + 0.02


def test_event_times_given_to_the_network_are_those_of_the_process() -> None:
    """Each token's reveal time, read off the network's times, has the law 1 - mu_t / mu_T."""
    process = AbsorbingProcess(2, 40, Constant(3.0))
    for sampler in (FirstHitting(process), Uniformization(process), NextReaction(process)):
        counting = Counting(ProductDenoiser(HALF.expand(40, 2)), takes_time=True)
        sampler.sample(counting, 50, generator=_seeded())
        times = torch.cat(counting.times)
        assert len(times) == 2000
        level = process.schedule.mask_probability(times) / process.schedule.mask_probability(3.0)
        assert scipy.stats.kstest(level.numpy(), "uniform").pvalue > 1e-4


def test_one_step_and_one_call_are_legal() -> None:
    process, denoiser = AbsorbingProcess(2, 30), ProductDenoiser(HALF.expand(30, 2))
    for sampler in (
        Tweedie(process, steps=1),
        Euler(process, steps=1),
        FirstHitting(process, tokens_per_call=30),
    ):
        samples = sampler.sample(denoiser, 3, generator=_seeded())
        assert samples.network_calls == 1 and (samples.tokens < 2).all()


@pytest.mark.parametrize(("length", "count", "calls"), [(5, 2, 3), (4, 3, 2), (4, 9, 1), (7, 1, 7)])
def test_counts_need_not_divide_the_length(length: int, count: int, calls: int) -> None:
    process, denoiser = AbsorbingProcess(2, length), ProductDenoiser(HALF.expand(length, 2))
    samples = FirstHitting(process, tokens_per_call=count).sample(denoiser, 6, generator=_seeded())
    assert samples.network_calls == calls and (samples.tokens < 2).all()
    assert (Tweedie(process, steps=3 * length).sample(denoiser, 6).tokens < 2).all()


@pytest.mark.parametrize("kind", KINDS)
def test_empty_batches_and_sequences_are_legal(kind: str) -> None:
    for rows, length in ((0, 6), (3, 0), (0, 0)):
        process = AbsorbingProcess(2, length, Constant(3.0))
        denoiser = ProductDenoiser(HALF.expand(length, 2))
        samples = _samplers(process)[kind].sample(denoiser, rows, generator=_seeded())
        assert samples.tokens.shape == (rows, length) and samples.candidates.shape == (rows,)
        assert samples.network_calls == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_generator_rules_and_global_state_is_left_alone(kind: str) -> None:
    process, denoiser = AbsorbingProcess(2, 6, Constant(3.0)), MarkovChainDenoiser(HALF, FLIP, 6)
    sampler = _samplers(process)[kind]
    state = torch.get_rng_state()
    first, second = (sampler.sample(denoiser, 8, generator=_seeded(0)).tokens for _ in range(2))
    assert torch.equal(first, second) and torch.equal(state, torch.get_rng_state())
    torch.manual_seed(0)
    first = sampler.sample(denoiser, 8).tokens
    torch.manual_seed(0)
    assert torch.equal(first, sampler.sample(denoiser, 8).tokens)


def test_reverse_steps_with_a_time_per_row() -> None:
    process = AbsorbingProcess(5, 20_000)
    t = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)
    tokens = process.corrupt(torch.zeros(3, 20_000, dtype=torch.long), t, generator=_seeded())
    denoiser = ProductDenoiser(torch.full((20_000, 5), 0.2))
    stage = RevealFraction(process.reveal_probability(t, t / 2), t)
    run_stages(process, [stage], denoiser, tokens, 1)
    torch.testing.assert_close((tokens == 5).double().mean(1), t / 2, rtol=0, atol=0.012)


def test_impossible_prompts_are_flagged_and_finite() -> None:
    parity, permutation = ParityDenoiser(4, 2), PermutationDenoiser(4)
    wrong = torch.tensor([[0, 1, 0, 0], [0, 1, 1, 0], [2, 1, 0, 0]])
    samples = Tweedie(AbsorbingProcess(2, 4), steps=4).sample(parity, 3, prompt=wrong, generator=_seeded())
    assert samples.impossible.tolist() == [True, False, False] and (samples.tokens[:2] == wrong[:2]).all()
    prompt = torch.tensor([1, 1, 4, 4])
    samples = FirstHitting(AbsorbingProcess(4, 4)).sample(permutation, 20_000, prompt=prompt, generator=_seeded())
    assert samples.impossible.all()
    for column in (2, 3):
        share = torch.bincount(samples.tokens[:, column], minlength=4).double() / 20_000
        torch.testing.assert_close(share, torch.full_like(share, 0.25), rtol=0, atol=4 * (0.1875 / 20_000) ** 0.5)
    exact = FirstHitting(AbsorbingProcess(4, 4)).sample(permutation, 500, generator=_seeded())
    assert not exact.impossible.any()


@pytest.mark.parametrize("tail", [1e-9, 1e-6, 1e-4])
def test_rare_tokens_are_drawn_at_their_rate(tail: float) -> None:
    """1e7 draws of a law of two levels; a float32 race would draw the tail of 1e-9 never, that of 1e-6 at 97 %."""
    law, total = torch.tensor([[1.0 - tail, tail]], dtype=torch.float64), 0
    for chunk in range(10):
        level = torch.rand(1_000_000, dtype=torch.float64, generator=_seeded(chunk))
        total += int(draw_categories(law.expand(1_000_000, -1), level).sum())
    assert abs(total - 1e7 * tail) <= 4 * max(1.0, 1e7 * tail) ** 0.5


@pytest.mark.parametrize("size", [1, 2, 3, 7, 10, 1000])
def test_categories_invert_the_distribution_function(size: int) -> None:
    weights = torch.rand(1, size, dtype=torch.float64, generator=_seeded())
    weights[0, 1::3] = 0.0
    level = (torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000
    drawn = draw_categories(weights.expand(20_000, -1), level)
    share = torch.bincount(drawn, minlength=size).double() / 20_000
    torch.testing.assert_close(share, weights[0] / weights.sum(), rtol=0, atol=1e-4)
    assert (share[weights[0] == 0] == 0).all()
    edge = torch.tensor([2.0**-53, 1 - 2.0**-53], dtype=torch.float64)
    drawn = draw_categories(weights.expand(2, -1), edge)
    assert (weights[0, drawn] > 0).all()


def test_teacher_forcing_is_unbiased_for_the_path_divergence(targets: dict[str, Tensor]) -> None:
    pmf = targets["ising_ring_d4"]
    process, denoiser = AbsorbingProcess(2, 4), TabularDenoiser(pmf)
    data = FirstHitting(process).sample(denoiser, 10_000, generator=_seeded()).tokens
    for steps, expected in ((1, 0.3291398518), (4, 0.07526000514), (16, 0.01837594142)):
        forced = Tweedie(process, steps=steps).teacher_forced(denoiser, data, generator=_seeded(7))
        values = forced + denoiser.log_marginal(data)
        assert abs(float(values.mean()) - expected) < 4 * float(values.std()) / 100


@pytest.mark.parametrize(("length", "expected"), [(16, 0.2556784566), (256, 4.254159551)])
def test_teacher_forcing_on_a_chain(length: int, expected: float, oracles: dict[str, Any]) -> None:
    assert oracles["binary_chain_closed_form"][f"d{length}_flip0.1"]["tweedie_path_KL"]["16"] == expected
    process, denoiser = AbsorbingProcess(2, length), MarkovChainDenoiser(HALF, FLIP, length)
    data = (torch.rand(2000, length, generator=_seeded()) < 0.1).long().cumsum(1)
    data = (data + torch.randint(0, 2, (2000, 1), generator=_seeded())) % 2
    forced = Tweedie(process, steps=16).teacher_forced(denoiser, data, generator=_seeded(7))
    values = forced + denoiser.log_marginal(data)
    assert abs(float(values.mean()) - expected) < 4 * float(values.std()) / 2000**0.5


def test_teacher_forcing_of_an_exact_sampler_is_the_likelihood(targets: dict[str, Tensor]) -> None:
    denoiser = TabularDenoiser(targets["dense_d3K2"])
    data = torch.cartesian_prod(*[torch.arange(2)] * 3)
    for sampler in (FirstHitting(AbsorbingProcess(2, 3)), NextReaction(AbsorbingProcess(2, 3))):
        forced = sampler.teacher_forced(denoiser, data)
        torch.testing.assert_close(forced, -denoiser.log_marginal(data), rtol=0, atol=1e-12)


def test_the_score_error_enters_the_path_bound_additively(targets: dict[str, Tensor]) -> None:
    """Perturbed denoiser: NELBO_N - NELBO is the Riemann part, by enumeration of all revealed sets."""
    pmf, eta, steps = targets["ising_ring_d4"], 0.2, 5
    exact = TabularDenoiser(pmf)

    def perturbed(tokens: Tensor, t: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        return ((1 - eta) * exact(tokens, t, positions).exp() + eta / 2).log()

    data = torch.cartesian_prod(*[torch.arange(2)] * 4)
    weight = pmf.flatten()

    def g(p: Tensor) -> Tensor:
        total = torch.zeros_like(p)
        for bits in data.bool():
            loss = -perturbed(data.masked_fill(~bits, 2)).gather(2, data[..., None]).squeeze(2)
            for i in (~bits).nonzero().flatten().tolist():
                others = int(bits.sum())
                total += p**others * (1 - p) ** (3 - others) * float((weight * loss[:, i]).sum())
        return total

    points = torch.linspace(0, 1, steps + 1, dtype=torch.float64)[:-1]
    expected = float(g(points).sum()) / steps
    tokens = data[torch.multinomial(weight, 20_000, True, generator=_seeded())]
    sampler = Tweedie(AbsorbingProcess(2, 4), steps=steps)
    values = sampler.teacher_forced(perturbed, tokens, generator=_seeded())
    assert abs(float(values.mean()) - expected) < 4 * float(values.std()) / 20_000**0.5
    nodes = torch.linspace(0, 1, 4001, dtype=torch.float64)
    nelbo = float(torch.trapezoid(g(nodes), nodes))
    left = information.profile(pmf)
    riemann = float(left.g(points).sum()) / steps - float(left.f[-1])
    assert expected > nelbo and abs((expected - nelbo) / riemann - 1) < 0.5


def test_reveal_fractions_of_grids(targets: dict[str, Tensor]) -> None:
    process = AbsorbingProcess(2, 4)
    torch.testing.assert_close(Tweedie(process, steps=4).reveal_fractions(), torch.linspace(0, 1, 5).double())
    fractions = Tweedie(process, grid=CosineGrid(3)).reveal_fractions()
    expected = 1 - torch.cos(torch.arange(4).double() * math.pi / 6)
    torch.testing.assert_close(fractions, expected)
    profile = information.profile(targets["parity_d4"])
    fractions = Tweedie(process, grid=EqualError(profile, 8)).reveal_fractions()
    mass = torch.sqrt(profile.slope((fractions[1:] + fractions[:-1]) / 2)) * fractions.diff()
    assert float(mass[1:].max() / mass[1:].min()) < 1.05
    assert torch.equal(UniformGrid(4).times(LogLinear()), torch.tensor([1, 0.75, 0.5, 0.25, 0]).double())
    product = information.profile(targets["product_d3K3"])
    assert len(EqualError(product, 3).times(LogLinear())) == 4
    with pytest.raises(ValueError, match="no reveal fractions"):
        TauLeaping(process, steps=2, multi_event="same-token").reveal_fractions()


@pytest.mark.parametrize("horizon", [5.0, 30.0, 40.0])
def test_the_kappa_grid_keeps_its_steps_at_any_horizon(horizon: float) -> None:
    times = KappaGrid(0.5, 0.01).times(Constant(horizon))
    expected = horizon - 0.5 * torch.arange(8, dtype=torch.float64)
    torch.testing.assert_close(times[:8], expected, rtol=0, atol=1e-12)
    assert (times.diff() < 0).all() and float(times[-1]) == pytest.approx(0.01)
    assert len(KappaGrid(0.1, 2.0).times(Constant(5.0))) - 1 == 30
    with pytest.raises(ValueError, match="finite sigma"):
        KappaGrid(0.5, 0.1).times(Cosine())


@pytest.mark.usefixtures("as_user")
def test_whole_numbers_of_other_libraries_are_taken() -> None:
    process, denoiser = AbsorbingProcess(np.int64(2), np.int64(4)), ProductDenoiser(HALF.expand(4, 2))
    samples = Tweedie(process, steps=np.int64(3)).sample(denoiser, np.int64(5))
    assert samples.tokens.shape == (5, 4)


def test_nothing_is_done_when_nothing_is_free() -> None:
    process, denoiser = AbsorbingProcess(2, 4), ProductDenoiser(HALF.expand(4, 2))
    sampler = Tweedie(process, steps=20_000)
    start = time.process_time()
    samples = sampler.sample(denoiser, 3, prompt=torch.zeros(4, dtype=torch.long))
    assert samples.network_calls == 0 and time.process_time() - start < 2.0


def test_bad_logits_are_named_by_their_row() -> None:
    def broken(tokens: Tensor, t: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        assert positions is not None
        return torch.full((len(positions), 2), math.nan)

    prompt = torch.zeros(5, 4, dtype=torch.long)
    prompt[3, 2] = 2
    with pytest.raises(ValueError, match="row 3, column 2"):
        Tweedie(AbsorbingProcess(2, 4), steps=2).sample(broken, 5, prompt=prompt)


def test_clipped_euler_steps_are_counted() -> None:
    process = AbsorbingProcess(2, 4, Constant(4.0))
    denoiser = ProductDenoiser(HALF.expand(4, 2))
    assert Euler(process, grid=KappaGrid(0.9, 0.01)).sample(denoiser, 2).clips == 0
    steps = 3
    expected = sum(4 / steps / math.expm1(4 - 4 / steps * k) > 1 for k in range(steps - 1))
    assert Euler(process, steps=steps).sample(denoiser, 2).clips == expected


PROCESS = AbsorbingProcess(2, 4, Constant(4.0))


class Backwards(Grid):
    """A grid in the wrong direction."""

    def times(self, schedule: Schedule) -> Tensor:
        return torch.linspace(0.0, schedule.horizon, 5).double()


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: Tweedie(PROCESS), ValueError, "exactly one of steps and grid"),
        (lambda: Tweedie(PROCESS, steps=3, grid=UniformGrid(3)), ValueError, "exactly one of steps and grid"),
        (lambda: Tweedie(PROCESS, steps=0), ValueError, "steps=0"),
        (lambda: Tweedie(PROCESS, steps=2.5), TypeError, "steps=2.5"),
        (lambda: Tweedie(PROCESS, steps=2, start="noise"), ValueError, "start='noise'"),
        (lambda: TauLeaping(PROCESS, steps=2, multi_event="all"), ValueError, "multi_event='all'"),
        (
            lambda: TauLeaping(AbsorbingProcess(3, 4, mask_id=1), steps=2, multi_event="ordinal"),
            ValueError,
            "mask_id=1",
        ),
        (lambda: FirstHitting(PROCESS, tokens_per_call=0), ValueError, "tokens_per_call=0"),
        (lambda: Uniformization(PROCESS, early_stop=4.0), ValueError, "early_stop=4.0"),
        (lambda: Uniformization(PROCESS, early_stop=-1.0), ValueError, "early_stop=-1.0"),
        (lambda: KappaGrid(0.0, 0.1), ValueError, "c=0.0"),
        (lambda: KappaGrid(0.5, 0.0), ValueError, "early_stop=0.0"),
        (lambda: Tweedie(AbsorbingProcess(2, 4), grid=KappaGrid(0.5, 0.1)), ValueError, "finite sigma"),
        (lambda: Tweedie(PROCESS, grid=KappaGrid(0.5, 5.0)), ValueError, "not between sigma"),
        (lambda: Tweedie(UniformProcess(2, 4), steps=2), TypeError, "UniformProcess"),
        (lambda: Tweedie(PROCESS, grid=torch.ones(3)), TypeError, "grid is a Tensor"),
        (lambda: Tweedie(PROCESS, grid=Backwards()), ValueError, "must decrease from the horizon"),
        (
            lambda: Tweedie(AbsorbingProcess(2, 4, Geometric()), grid=KappaGrid(0.5, 1e-6)),
            ValueError,
            "sigma\\(0\\)=0.0001",
        ),
    ],
)
@pytest.mark.usefixtures("as_user")
def test_senseless_samplers_are_refused(build: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (dict(num_samples=-1), ValueError, "num_samples=-1"),
        (dict(num_samples=2, prompt=torch.tensor([0, 1])), ValueError, "prompt has shape \\(2,\\)"),
        (dict(num_samples=2, prompt=torch.zeros(3, 4).long()), ValueError, "prompt has shape \\(3, 4\\)"),
        (dict(num_samples=2, prompt=torch.zeros(4)), TypeError, "int64"),
        (dict(num_samples=2, prompt=[0, 1, 2, 2]), TypeError, "prompt is a list"),
        (dict(num_samples=2.0), TypeError, "num_samples=2.0"),
        (dict(num_samples=2, generator=3), TypeError, "generator=3"),
        (dict(num_samples=2, prompt=torch.tensor([0, 1, 2, 3])), ValueError, "prompt holds id 3"),
    ],
)
@pytest.mark.usefixtures("as_user")
def test_bad_requests_are_refused(arguments: Any, error: type[Exception], message: str) -> None:
    denoiser = Counting(ProductDenoiser(HALF.expand(4, 2)))
    with pytest.raises(error, match=message):
        Tweedie(PROCESS, steps=2).sample(denoiser, **arguments)
    assert not denoiser.rows  # refused before any work


def test_teacher_forcing_needs_reveals_known_beforehand() -> None:
    denoiser, data = ProductDenoiser(HALF.expand(4, 2)), torch.zeros(2, 4, dtype=torch.long)
    with pytest.raises(ValueError, match="do not depend on the predictions"):
        TauLeaping(PROCESS, steps=2, multi_event="same-token").teacher_forced(denoiser, data)
    with pytest.raises(ValueError, match="start"):
        Tweedie(PROCESS, steps=2, start="surrogate").teacher_forced(denoiser, data)
    with pytest.raises(ValueError, match="use fill=True"):
        Uniformization(PROCESS, early_stop=2.0, fill=False).teacher_forced(denoiser, data.repeat(50, 1))


class Ready:
    """A stub denoiser that returns ready log-probabilities."""

    takes_time = False

    def __init__(self, count: int, size: int) -> None:
        self.table = torch.zeros(count, size).log_softmax(-1)

    def __call__(self, tokens: Tensor, t: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        assert positions is not None
        return self.table[: len(positions)]


def test_time_per_call_does_not_grow_with_the_masks_that_stay() -> None:
    """Ratios in one run: a call that reveals one token of 16,384 costs little more than one of 64."""

    def per_call(length: int) -> float:
        process, stub = AbsorbingProcess(50, length), Ready(16, 50)
        stages = [RevealFraction(1 / (2 * length), 0.5)] * 400  # about one reveal per two stages
        times = []
        for _ in range(3):
            tokens = torch.full((1, length), 50)
            start = time.process_time()
            chain = run_stages(process, stages, stub, tokens, 1)
            times.append((time.process_time() - start) / max(chain.calls, 1))
        return min(times)

    assert per_call(16_384) < 4 * per_call(64)


def test_progress_counts_tokens(capsys: pytest.CaptureFixture[str]) -> None:
    process, denoiser = AbsorbingProcess(2, 8), ProductDenoiser(HALF.expand(8, 2))
    Uniformization(process).sample(denoiser, 4, progress=True)
    assert "32/32" in capsys.readouterr().err
    Uniformization(process).sample(denoiser, 4)
    assert not capsys.readouterr().err
