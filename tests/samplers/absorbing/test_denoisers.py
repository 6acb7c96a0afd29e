"""Exact denoisers against tables, network denoisers against what networks do."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from samplers.absorbing import (
    AbsorbingProcess,
    Constant,
    ExactDenoiser,
    FirstHitting,
    LogitsDenoiser,
    MarkovChainDenoiser,
    MixtureDenoiser,
    NucleusDenoiser,
    ParityDenoiser,
    PermutationDenoiser,
    ProductDenoiser,
    ScoreDenoiser,
    TabularDenoiser,
    Tweedie,
    exact_law,
    information,
    nucleus,
    score_from_x0,
)

INITIAL = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
TRANSITION = torch.tensor([[0.7, 0.2, 0.1], [0.0, 0.4, 0.6], [0.3, 0.3, 0.4]], dtype=torch.float64)
MARGINALS = torch.tensor([[0.5, 0.2, 0.3], [0.0, 0.9, 0.1], [0.3, 0.3, 0.4], [0.6, 0.4, 0.0]], dtype=torch.float64)


def _chain_law(x: tuple[int, ...]) -> float:
    steps = [float(TRANSITION[a, b]) for a, b in itertools.pairwise(x)]
    return float(INITIAL[x[0]]) * math.prod(steps)


def _product_law(x: tuple[int, ...]) -> float:
    return math.prod(float(MARGINALS[i, a]) for i, a in enumerate(x))


CASES: dict[str, tuple[Callable[[], ExactDenoiser], int, int, Callable[[tuple[int, ...]], float]]] = {
    "product": (lambda: ProductDenoiser(MARGINALS), 4, 3, _product_law),
    "markov_chain": (lambda: MarkovChainDenoiser(INITIAL, TRANSITION, 4), 4, 3, _chain_law),
    "parity": (lambda: ParityDenoiser(4, 3), 4, 3, lambda x: float(sum(x) % 3 == 0)),
    "permutation": (lambda: PermutationDenoiser(4), 4, 4, lambda x: float(len(set(x)) == 4)),
    "mixture": (
        lambda: MixtureDenoiser(
            torch.tensor([0.25, 0.75]),
            [ProductDenoiser(MARGINALS), MarkovChainDenoiser(INITIAL, TRANSITION, 4)],
        ),
        4,
        3,
        lambda x: 0.25 * _product_law(x) + 0.75 * _chain_law(x),
    ),
}


def _table(length: int, size: int, weight: Callable[[tuple[int, ...]], float]) -> Tensor:
    law = torch.tensor([weight(x) for x in itertools.product(range(size), repeat=length)], dtype=torch.float64)
    return (law / law.sum()).view((size,) * length)


def _contexts(length: int, size: int) -> Tensor:
    return torch.cartesian_prod(*[torch.arange(size + 1)] * length)


@pytest.mark.parametrize("name", CASES)
def test_structured_denoisers_equal_their_table(name: str) -> None:
    build, length, size, weight = CASES[name]
    denoiser, table = build(), TabularDenoiser(_table(length, size, weight))
    contexts = _contexts(length, size)
    torch.testing.assert_close(denoiser(contexts).exp(), table(contexts).exp(), rtol=0, atol=1e-13)
    torch.testing.assert_close(denoiser.log_marginal(contexts), table.log_marginal(contexts), rtol=1e-12, atol=1e-12)
    assert torch.equal(denoiser.impossible(contexts), table.impossible(contexts))
    positions = torch.stack([torch.randint(0, len(contexts), (99,)), torch.randint(0, length, (99,))], 1)
    chosen = denoiser(contexts, None, positions)
    assert torch.equal(chosen, denoiser(contexts)[positions[:, 0], positions[:, 1]])


def test_the_table_holds_the_conditionals(targets: dict[str, Tensor]) -> None:
    pmf = targets["dense_d3K2"]
    law = TabularDenoiser(pmf)(torch.tensor([[1, 2, 2], [2, 2, 2], [0, 1, 2], [2, 0, 1]])).exp()
    torch.testing.assert_close(law[0, 1], pmf[1].sum(1) / pmf[1].sum())
    torch.testing.assert_close(law[1, 2], pmf.sum((0, 1)))
    torch.testing.assert_close(law[2, 2], pmf[0, 1] / pmf[0, 1].sum())
    torch.testing.assert_close(law[3, 0], pmf[:, 0, 1] / pmf[:, 0, 1].sum())
    assert law[0, 0].tolist() == [0.0, 1.0]


@pytest.mark.parametrize("name", CASES)
def test_impossible_contexts_get_the_uniform_law(name: str) -> None:
    build, length, size, _ = CASES[name]
    denoiser, contexts = build(), _contexts(length, size)
    law = denoiser(contexts)
    assert not law.isnan().any()
    torch.testing.assert_close(law.exp().sum(-1), torch.ones_like(law[..., 0]))
    impossible = denoiser.impossible(contexts)
    masked = (contexts == size) & impossible[:, None]
    if masked.any():
        torch.testing.assert_close(law[masked].exp(), torch.full_like(law[masked], 1 / size))


@pytest.mark.parametrize("name", ["product", "parity", "permutation"])
def test_profiles_are_those_of_the_table(name: str) -> None:
    build, length, size, weight = CASES[name]
    expected = information.profile(_table(length, size, weight))
    torch.testing.assert_close(build().profile().f, expected.f, rtol=1e-10, atol=1e-12)  # type: ignore[operator]


def test_a_mask_inside_the_vocabulary(targets: dict[str, Tensor]) -> None:
    pmf = torch.zeros(3, 3, 3, dtype=torch.float64)
    pmf[torch.meshgrid(*[torch.tensor([0, 2])] * 3, indexing="ij")] = targets["dense_d3K2"]
    inside, outside = TabularDenoiser(pmf, mask_id=1), TabularDenoiser(targets["dense_d3K2"])
    contexts = _contexts(3, 2)
    renamed = torch.tensor([0, 2, 1])[contexts]
    torch.testing.assert_close(inside(renamed)[..., [0, 2]], outside(contexts))
    assert inside(renamed)[..., 1][renamed != 1].isneginf().all()
    with pytest.raises(ValueError, match="mass on the mask id 0"):
        TabularDenoiser(pmf, mask_id=0)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: TabularDenoiser(torch.ones(2, 3) / 6), "one axis of the same size"),
        (lambda: TabularDenoiser(torch.ones(2, 2)), "pmf sums to 4, not to 1"),
        (lambda: TabularDenoiser(torch.tensor([1.5, -0.5])), "the entry -0.5"),
        (lambda: TabularDenoiser(torch.ones([2] * 20) / 2**20), "over 2\\^26"),
        (lambda: ProductDenoiser(torch.ones(3) / 3), "expected \\(L, K\\)"),
        (lambda: MarkovChainDenoiser(torch.ones(2) / 2, torch.ones(3, 3) / 3, 4), "transition of shape"),
        (lambda: MixtureDenoiser(torch.ones(3) / 3, [ParityDenoiser(2, 2)]), "one weight per component"),
        (
            lambda: MixtureDenoiser(torch.ones(2) / 2, [ParityDenoiser(2, 2), ParityDenoiser(3, 2)]),
            "of one size",
        ),
        (lambda: nucleus(torch.zeros(3), 0.0), "mass=0.0"),
        (lambda: ParityDenoiser(0, 2), "length=0"),
        (lambda: ParityDenoiser(3, 2)(torch.zeros(1, 4, dtype=torch.long)), "this law has length 3"),
    ],
)
def test_senseless_laws_are_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


class Logits(nn.Module):
    """Fixed logits at every place, with a parameter and dropout to watch the mode."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits)
        self.modes: list[bool] = []

    def forward(self, tokens: Tensor) -> Tensor:
        self.modes.append(self.training)
        return self.logits.expand(*tokens.shape, -1)


def test_sampling_runs_in_eval_mode_and_leaves_the_mode() -> None:
    module, process = Logits(torch.zeros(4)), AbsorbingProcess(4, 3)
    for mode in (True, False):
        module.train(mode)
        Tweedie(process, steps=2).sample(LogitsDenoiser(module), 2)
        assert module.training is mode
    assert not any(module.modes)
    assert module.logits.grad is None and module.logits.tolist() == [0.0] * 4


@pytest.mark.parametrize("mask_id", [None, 2])
def test_the_mask_is_never_predicted(mask_id: int | None, generator: torch.Generator) -> None:
    process = AbsorbingProcess(4, 64, mask_id=mask_id)
    logits = torch.zeros(process.num_states)
    logits[process.mask_id] = 5.0
    tokens = Tweedie(process, steps=4).sample(LogitsDenoiser(Logits(logits)), 500, generator=generator).tokens
    counts = torch.bincount(tokens.flatten(), minlength=process.num_states).double()
    assert counts[process.mask_id] == 0
    share = counts[process.clean_ids] / tokens.numel()
    torch.testing.assert_close(share, torch.full_like(share, 1 / len(share)), rtol=0, atol=0.012)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_logits_are_safe(dtype: torch.dtype) -> None:
    logits = (torch.randn(9) * 8).to(dtype)
    tokens = torch.tensor([[0, 9, 3], [9, 9, 9]])
    log_probs = LogitsDenoiser(Logits(logits))(tokens)
    assert log_probs.dtype == torch.float32 and not log_probs.isnan().any()
    torch.testing.assert_close(log_probs, logits.float().log_softmax(-1).expand_as(log_probs), rtol=0, atol=2e-2)


def test_score_networks_are_normalised() -> None:
    process = AbsorbingProcess(3, 4, Constant(3.0))
    law = torch.tensor([[0.2, 0.5, 0.3]]).log()

    class Score(nn.Module):
        def forward(self, tokens: Tensor, sigma: Tensor) -> Tensor:
            score = score_from_x0(law, sigma[:, None])
            return (1.7 * score).log().expand(*tokens.shape, 3)

    denoiser = ScoreDenoiser(Score(), process.schedule)
    got = denoiser(torch.full((2, 4), 3), torch.tensor([0.5, 2.0]))
    torch.testing.assert_close(got, law.expand_as(got))
    with pytest.raises(ValueError, match="needs the time"):
        denoiser(torch.full((2, 4), 3))


def test_the_nucleus_keeps_the_token_that_crosses() -> None:
    log_probs = torch.tensor([0.5, 0.3, 0.2]).log()
    kept = log_probs.clone()
    torch.testing.assert_close(nucleus(log_probs, 0.6).exp(), torch.tensor([0.625, 0.375, 0.0]))
    torch.testing.assert_close(nucleus(log_probs, 0.5).exp(), torch.tensor([1.0, 0.0, 0.0]))
    torch.testing.assert_close(nucleus(log_probs, 1.0), log_probs)
    assert torch.equal(nucleus(log_probs.flip(0), 1e-9).exp(), torch.tensor([0.0, 0.0, 1.0]))
    assert torch.equal(log_probs, kept)
    greedy = NucleusDenoiser(LogitsDenoiser(Logits(torch.tensor([0.0, 2.0, 1.0]))), 1e-9)
    tokens = Tweedie(AbsorbingProcess(3, 5), steps=3).sample(greedy, 7).tokens
    assert (tokens == 1).all()


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        (torch.zeros(3), "vocab_size=5"),
        (torch.tensor([0.0, math.nan, 0.0, 0.0, 0.0]), "row 0, column"),
        (torch.full((5,), -math.inf), "NaN, infinite or no probability"),
    ],
)
def test_bad_predictions_are_named(logits: Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FirstHitting(AbsorbingProcess(5, 3)).sample(LogitsDenoiser(Logits(logits)), 2)


@pytest.mark.parametrize("frozen", [True, False])
def test_every_part_of_a_network_keeps_its_mode(frozen: bool) -> None:
    class Parts(Logits):
        def __init__(self) -> None:
            super().__init__(torch.zeros(4))
            self.inner = nn.Dropout(0.5)

        def forward(self, tokens: Tensor) -> Tensor:
            assert not self.inner.training
            return super().forward(tokens)

    module = Parts().train(frozen)
    module.inner.train(not frozen)
    Tweedie(AbsorbingProcess(4, 3), steps=2).sample(LogitsDenoiser(module), 2)
    assert module.training is frozen and module.inner.training is not frozen


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_networks_get_the_time_in_their_own_dtype(dtype: torch.dtype) -> None:
    class Timed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(1, 3, dtype=dtype)

        def forward(self, tokens: Tensor, t: Tensor) -> Tensor:
            assert t.dtype == dtype
            return self.layer(t[:, None])[:, None].expand(*tokens.shape, 3)

    process = AbsorbingProcess(3, 4, Constant(2.0))
    for denoiser in (LogitsDenoiser(Timed(), takes_time=True), ScoreDenoiser(Timed(), process.schedule)):
        assert (Tweedie(process, steps=2).sample(denoiser, 5).tokens < 3).all()


def test_the_nucleus_leaves_the_mask_out_and_flags_pass_through() -> None:
    logits = torch.tensor([0.2, 0.175, 0.125, 0.5]).log()
    filtered = NucleusDenoiser(LogitsDenoiser(Logits(logits)), 0.6, mask_id=3)
    law = exact_law(Tweedie(AbsorbingProcess(3, 1), steps=1), filtered)
    torch.testing.assert_close(law, torch.tensor([8 / 15, 7 / 15, 0.0]).double())
    wrong = torch.tensor([[1, 0, 0]])
    assert NucleusDenoiser(ParityDenoiser(3, 2), 0.9).impossible(wrong).tolist() == [True]
    tiny = torch.tensor([1 - 1e-13, 1e-13], dtype=torch.float64).log()
    torch.testing.assert_close(nucleus(tiny, 1.0), tiny)


def test_a_denoiser_of_another_process_is_refused() -> None:
    denoiser = ProductDenoiser(torch.tensor([[0.0, 0.5, 0.5]] * 2), mask_id=0)
    for process in (AbsorbingProcess(3, 2), AbsorbingProcess(3, 3, mask_id=0), AbsorbingProcess(4, 2, mask_id=0)):
        sampler = Tweedie(process, steps=2)
        data = torch.full((1, process.length), int(process.clean_ids[0]))
        for use in (
            lambda s=sampler: s.sample(denoiser, 2),
            lambda s=sampler, x=data: s.teacher_forced(denoiser, x),
            lambda s=sampler: exact_law(s, denoiser),
        ):
            with pytest.raises(ValueError, match="they must agree"):
                use()


def test_unnormalised_predictions_are_normalised_everywhere() -> None:
    def raw(tokens: Tensor, t: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        assert positions is not None
        return torch.tensor([1000.0, 1001.0]).expand(len(positions), 2)

    process = AbsorbingProcess(2, 1)
    expected = torch.tensor([0.0, 1.0], dtype=torch.float64).softmax(0)
    torch.testing.assert_close(exact_law(FirstHitting(process), raw), expected)
    tokens = FirstHitting(process).sample(raw, 20_000, generator=torch.Generator().manual_seed(0)).tokens
    assert float(tokens.double().mean()) == pytest.approx(float(expected[1]), abs=0.014)
    forced = FirstHitting(process).teacher_forced(raw, torch.tensor([[1]]))
    assert float(forced) == pytest.approx(-float(expected[1].log()))


@pytest.mark.gpu
def test_exact_denoisers_move_to_a_gpu(targets: dict[str, Tensor]) -> None:
    process, denoiser = AbsorbingProcess(2, 4), TabularDenoiser(targets["ising_ring_d4"])
    here = Tweedie(process, steps=3).sample(denoiser, 64, generator=torch.Generator().manual_seed(0)).tokens
    there = Tweedie(process, steps=3).sample(denoiser.cuda(), 64, generator=torch.Generator().manual_seed(0)).tokens
    assert there.device.type == "cuda" and torch.equal(there.cpu(), here)
