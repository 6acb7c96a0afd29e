"""Exact laws of every sampler: the oracle's values, an independent enumeration, closed forms, samples."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from samplers.absorbing import (
    AbsorbingProcess,
    Constant,
    Cosine,
    CosineGrid,
    CosineSquared,
    EqualError,
    Euler,
    FirstHitting,
    Geometric,
    KappaGrid,
    Linear,
    LogLinear,
    NextReaction,
    ParityDenoiser,
    PermutationDenoiser,
    ProductDenoiser,
    RevealFraction,
    Sampler,
    Schedule,
    Stage,
    TabularDenoiser,
    TauLeaping,
    Tweedie,
    Uniformization,
    exact_law,
    information,
)
from samplers.absorbing.law import kl_divergence, total_variation
from samplers.absorbing.testing import assert_sampler_law, chi_square, enumerate_bins, small_targets

NAMES = list(small_targets())


def _sampler(run: str, process: AbsorbingProcess) -> Sampler | None:
    """The sampler of a run of the oracle, or None for samplers of another family."""
    kind, _, number = run.rpartition("_N" if "_N" in run else "_s")
    builders = {
        "tweedie_loglinear": lambda n: Tweedie(process, steps=n),
        "tau_exp_loglinear": lambda n: TauLeaping(process, steps=n),
        "tau_poisson_reject": lambda n: TauLeaping(process, steps=n, multi_event="reject"),
        "fixed_size": lambda n: FirstHitting(process, tokens_per_call=n),
    }
    return builders[kind](int(number)) if kind in builders else None


@pytest.mark.parametrize("name", NAMES)
def test_laws_equal_the_oracle(name: str, targets: dict[str, Tensor], oracles: dict[str, Any]) -> None:
    pmf, runs = targets[name], oracles["targets"][name]["runs"]
    process, denoiser = AbsorbingProcess(pmf.shape[0], pmf.dim()), TabularDenoiser(pmf)
    checked = 0
    for run, expected in runs.items():
        sampler = _sampler(run, process)
        if sampler is None:
            continue
        law = exact_law(sampler, denoiser)
        assert float(law.sum()) == pytest.approx(1.0, abs=1e-12)
        assert kl_divergence(pmf, law) == pytest.approx(expected["KL"], abs=1e-9), run
        if "TV" in expected:
            assert total_variation(pmf, law) == pytest.approx(expected["TV"], abs=1e-9), run
        checked += 1
    assert checked >= 14


def test_clock_leaping_equals_the_oracle(targets: dict[str, Tensor], oracles: dict[str, Any]) -> None:
    """Tau-leaping in the hazard clock from log 1000, then a fill: equal reveal probabilities, whatever the schedule."""

    class ClockLeaping(Sampler):
        def stages(self) -> list[Stage]:
            reveal = -math.expm1(-math.log(1000) / steps)
            return [RevealFraction(reveal, 1.0)] * steps + [RevealFraction(1.0, 0.0)]

    for name in ("dense_d2K2", "ising_ring_d4", "parity_d4"):
        pmf = targets[name]
        for steps in (4, 8, 16):
            law = exact_law(ClockLeaping(AbsorbingProcess(2, pmf.dim())), TabularDenoiser(pmf))
            expected = oracles["targets"][name]["runs"][f"tau_clock_N{steps}"]
            assert kl_divergence(pmf, law) == pytest.approx(expected["KL"], abs=1e-9)


@pytest.mark.parametrize("index", range(10))
def test_the_kappa_schedule_equals_the_oracle(index: int, targets: dict[str, Tensor], oracles: dict[str, Any]) -> None:
    pmf, row = targets["ising_ring_d4"], oracles["kappa_schedule_ising_ring_d4"][index]
    process, denoiser = AbsorbingProcess(2, 4, Constant(row["T"])), TabularDenoiser(pmf)
    grid = KappaGrid(row["c"], row["delta"])
    assert len(grid.times(process.schedule)) - 1 == row["N"]
    noisy = torch.zeros(3, 3, 3, 3, dtype=torch.float64)
    noisy[:2, :2, :2, :2] = pmf
    noisy = torch.einsum("abcd,ai,bj,ck,dl->ijkl", noisy, *[process.transition(row["delta"])] * 4)
    for start, key in (("surrogate", "KL(q_delta||p) surrogate init"), ("exact", "KL exact init")):
        law = exact_law(TauLeaping(process, grid=grid, fill=False, start=start), denoiser)
        assert kl_divergence(noisy, law) == pytest.approx(row[key], abs=1e-9)
    filled = exact_law(TauLeaping(process, grid=grid), denoiser)
    assert kl_divergence(pmf, filled) == pytest.approx(row["KL(q0||p) all-mask start + final denoise"], abs=1e-9)


def test_a_product_law_leaps_with_an_error_of_time_alone(targets: dict[str, Tensor], oracles: dict[str, Any]) -> None:
    expected = oracles["product_tau_leaping_T4_delta0.05_c0.2"]
    process = AbsorbingProcess(3, 3, Constant(4.0))
    pmf = targets["product_d3K3"]
    sampler = TauLeaping(process, grid=KappaGrid(0.2, 0.05), fill=False, start="exact")
    law = exact_law(sampler, TabularDenoiser(pmf))
    assert float(law[-1].sum()) == pytest.approx(expected["mask_prob_sampler"], abs=1e-9)
    noisy = torch.zeros(4, 4, 4, dtype=torch.float64)
    noisy[:3, :3, :3] = pmf
    noisy = torch.einsum("abc,ai,bj,ck->ijk", noisy, *[process.transition(0.05)] * 3)
    assert kl_divergence(noisy, law) == pytest.approx(expected["KL=3*kl_Bernoulli"], abs=1e-9)


BINNED = {
    "tweedie": lambda process, n: Tweedie(process, steps=n),
    "euler": lambda process, n: Euler(process, steps=n),
    "tau": lambda process, n: TauLeaping(process, steps=n),
    "reject": lambda process, n: TauLeaping(process, steps=n, multi_event="reject"),
    "cosine_grid": lambda process, n: Tweedie(process, grid=CosineGrid(n)),
}


@pytest.mark.parametrize("kind", BINNED)
@pytest.mark.parametrize("name", NAMES)
def test_propagation_equals_enumeration_of_bins(kind: str, name: str, targets: dict[str, Tensor]) -> None:
    pmf = targets[name]
    schedule = Cosine(1e-2) if kind == "euler" else LogLinear()
    process, denoiser = AbsorbingProcess(pmf.shape[0], pmf.dim(), schedule), TabularDenoiser(pmf)
    for steps in (1, 2, 5):
        sampler = BINNED[kind](process, steps)
        enumerated = enumerate_bins(pmf, sampler.reveal_fractions())
        torch.testing.assert_close(exact_law(sampler, denoiser), enumerated, rtol=0, atol=1e-12)


def test_chain_divergences_equal_the_oracle(oracles: dict[str, Any]) -> None:
    flip = torch.tensor([[0.9, 0.1], [0.1, 0.9]], dtype=torch.float64)
    for key, expected in oracles["KL_vs_d_binary_chain_flip0.1_tweedie"].items():
        steps, length = (int(part[1:]) for part in key.split("_"))
        if length > 5:
            continue
        law = torch.full((2,), 0.5, dtype=torch.float64)
        for _ in range(length - 1):
            law = law[..., None] * flip
        process = AbsorbingProcess(2, length)
        got = exact_law(Tweedie(process, steps=steps), TabularDenoiser(law))
        assert kl_divergence(law, got) == pytest.approx(expected["KL"], abs=1e-9)


EXACT = {
    "first_hitting": FirstHitting,
    "uniformization": Uniformization,
    "uniformization_surrogate_free": lambda process: Uniformization(process, start="exact"),
    "next_reaction": NextReaction,
}


@pytest.mark.parametrize("schedule", [LogLinear(), Constant(3.0), Geometric()], ids=str)
@pytest.mark.parametrize("kind", EXACT)
@pytest.mark.parametrize("name", NAMES)
def test_exact_samplers_have_the_data_law(kind: str, name: str, schedule: Schedule, targets: dict[str, Tensor]) -> None:
    pmf = targets[name]
    process = AbsorbingProcess(pmf.shape[0], pmf.dim(), schedule)
    law = exact_law(EXACT[kind](process), TabularDenoiser(pmf))
    torch.testing.assert_close(law, pmf, rtol=0, atol=1e-12)


def test_early_stopping_is_not_exact_and_its_law_is_computed(targets: dict[str, Tensor]) -> None:
    pmf = targets["ising_ring_d4"]
    process, denoiser = AbsorbingProcess(2, 4, Constant(6.0)), TabularDenoiser(pmf)
    delta = 0.1
    stopped = exact_law(Uniformization(process, early_stop=delta, fill=False), denoiser)
    # From masks at T, the chain at delta has the marginal of mask probability mu_delta / mu_T, and is exact there.
    survive = 1 - float(process.schedule.mask_probability(delta) / process.schedule.mask_probability(6.0))
    clean = stopped[:2, :2, :2, :2]
    torch.testing.assert_close(clean, survive**4 * pmf, rtol=0, atol=1e-12)
    filled = exact_law(Uniformization(process, early_stop=delta), denoiser)
    assert 1e-6 < kl_divergence(pmf, filled) < 1e-2
    assert_sampler_law(Uniformization(process, early_stop=0.7), denoiser, num_samples=100_000)


@pytest.mark.parametrize("name", ["dense_d2K2", "dense_d3K2", "ising_ring_d4", "product_d3K3"])
def test_a_surrogate_start_mixes_uniform_tokens_in(name: str, targets: dict[str, Tensor]) -> None:
    """p(x) = sum_A P(A) K^-|A| q0(x rest | x_A) with A Bernoulli(alpha_T)."""
    pmf = targets[name]
    size, length, alpha = pmf.shape[0], pmf.dim(), math.exp(-2.0)
    process, denoiser = AbsorbingProcess(size, length, Constant(2.0)), TabularDenoiser(pmf)
    law = exact_law(Uniformization(process, start="surrogate"), denoiser)
    sequences = torch.cartesian_prod(*[torch.arange(size)] * length).view(-1, length)
    expected = torch.zeros(len(sequences), dtype=torch.float64)
    for bits in torch.cartesian_prod(*[torch.tensor([0, 1])] * length):
        chosen = bits.bool()
        context = sequences.masked_fill(~chosen, size)
        rest = (denoiser.log_marginal(sequences) - denoiser.log_marginal(context)).exp()
        weight = alpha ** int(chosen.sum()) * (1 - alpha) ** int((~chosen).sum())
        expected += weight * float(size) ** -int(chosen.sum()) * rest
    torch.testing.assert_close(law.flatten(), expected, rtol=0, atol=1e-12)


def test_schedules_do_not_matter_at_equal_reveal_fractions(targets: dict[str, Tensor]) -> None:
    pmf = targets["ising_ring_d4"]
    denoiser = TabularDenoiser(pmf)
    schedules = [LogLinear(), LogLinear(1e-2), Cosine(), CosineSquared(), Linear(), Constant(3.0)]
    for grid in (CosineGrid(5), EqualError(information.profile(pmf), 5)):
        laws = [exact_law(Tweedie(AbsorbingProcess(2, 4, s), grid=grid), denoiser) for s in schedules]
        for law in laws[1:]:
            torch.testing.assert_close(law, laws[0], rtol=0, atol=1e-12)


def test_euler_is_tweedie_on_the_log_linear_schedule(targets: dict[str, Tensor]) -> None:
    pmf = targets["perm_d4"]
    denoiser = TabularDenoiser(pmf)
    for epsilon in (0.0, 1e-3):
        process = AbsorbingProcess(4, 4, LogLinear(epsilon))
        laws = [exact_law(method(process, steps=4), denoiser) for method in (Euler, Tweedie)]
        torch.testing.assert_close(laws[0], laws[1], rtol=0, atol=1e-14)
    process = AbsorbingProcess(4, 4, Cosine())
    laws = [exact_law(method(process, steps=4), denoiser) for method in (Euler, Tweedie)]
    assert total_variation(laws[0], laws[1]) > 1e-3  # elsewhere they differ


@pytest.mark.parametrize("sizes", [1, 2, 3, 8])
def test_independent_tokens_are_always_exact(sizes: int, targets: dict[str, Tensor]) -> None:
    pmf = targets["product_d3K3"]
    process, denoiser = AbsorbingProcess(3, 3), TabularDenoiser(pmf)
    samplers = [build(process, sizes) for build in BINNED.values()] + [FirstHitting(process, tokens_per_call=sizes)]
    for sampler in samplers:
        assert abs(kl_divergence(pmf, exact_law(sampler, denoiser))) < 1e-12


@pytest.mark.parametrize("steps", [1, 2, 4, 8, 64])
def test_parity_has_its_closed_form(steps: int, targets: dict[str, Tensor]) -> None:
    pi = 1 - (4 / steps) * sum((j / steps) ** 3 for j in range(steps))
    law = exact_law(Tweedie(AbsorbingProcess(2, 4), steps=steps), ParityDenoiser(4, 2))
    assert kl_divergence(targets["parity_d4"], law) == pytest.approx(-math.log(1 - pi / 2), abs=1e-9)


def test_permutations_have_their_closed_form(targets: dict[str, Tensor]) -> None:
    for size, expected in ((1, 0.0), (2, 4 * math.log(2) + 2 * math.log(4) - 2 * math.log(2) - math.log(24))):
        law = exact_law(FirstHitting(AbsorbingProcess(4, 4), tokens_per_call=size), PermutationDenoiser(4))
        assert kl_divergence(targets["perm_d4"], law) == pytest.approx(expected, abs=1e-9)


def test_parity_of_16_tokens_fails_as_often_as_its_closed_form(generator: torch.Generator) -> None:
    steps, length, count = 32, 16, 200_000
    pi = 1 - (length / steps) * sum((j / steps) ** (length - 1) for j in range(steps))
    samples = Tweedie(AbsorbingProcess(2, length), steps=steps).sample(
        ParityDenoiser(length, 2), count, generator=generator
    )
    failures, expected = int(samples.impossible.sum()), count * pi / 2
    assert failures == int((samples.tokens.sum(1) % 2).sum())
    assert abs(failures - expected) < 4 * (expected * (1 - pi / 2)) ** 0.5


def test_copies_disagree_as_often_as_known(generator: torch.Generator) -> None:
    """Two equal binary tokens, N even steps: unequal pairs 1/(2N)."""
    copy = torch.diag(torch.tensor([0.5, 0.5], dtype=torch.float64))
    for steps in (1, 2, 4, 8):
        samples = Tweedie(AbsorbingProcess(2, 2), steps=steps).sample(
            TabularDenoiser(copy), 400_000, generator=generator
        )
        unequal = float((samples.tokens[:, 0] != samples.tokens[:, 1]).double().mean())
        assert unequal == pytest.approx(1 / (2 * steps), abs=0.003)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("first-jump", [0.632121 * p for p in (0.7, 0.2, 0.1)]),
        ("reject", [0.367879 * p for p in (0.7, 0.2, 0.1)]),
        ("same-token", [0.372939, 0.081450, 0.038690]),
    ],
)
def test_multi_event_policies_on_one_token(policy: str, expected: list[float]) -> None:
    """lambda = 1: the last step of the log-linear grid."""
    denoiser = TabularDenoiser(torch.tensor([0.7, 0.2, 0.1]))
    sampler = TauLeaping(AbsorbingProcess(3, 1), steps=1, fill=False, multi_event=policy)
    law = exact_law(sampler, denoiser)
    torch.testing.assert_close(law[:3], torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-6)
    assert float(law.sum()) == pytest.approx(1.0, abs=1e-12)
    assert_sampler_law(sampler, denoiser)


def test_ordinal_jumps_add_up_and_are_clamped() -> None:
    chances = [0.7, 0.2, 0.1]
    sampler = TauLeaping(AbsorbingProcess(3, 1), steps=1, fill=False, multi_event="ordinal")
    denoiser = TabularDenoiser(torch.tensor(chances, dtype=torch.float64))
    law = exact_law(sampler, denoiser)
    expected = [0.0] * 4
    for counts in torch.cartesian_prod(*[torch.arange(14)] * 3).tolist():
        weight = math.prod(math.exp(-c) * c**n / math.factorial(n) for c, n in zip(chances, counts, strict=True))
        expected[max(0, 3 + sum(n * (a - 3) for a, n in enumerate(counts)))] += weight
    torch.testing.assert_close(law, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-10)
    assert_sampler_law(sampler, denoiser)


@pytest.mark.parametrize("policy", ["first-jump", "reject", "same-token", "ordinal"])
def test_samples_of_every_policy_follow_the_computed_law(policy: str, targets: dict[str, Tensor]) -> None:
    process, denoiser = AbsorbingProcess(2, 3), TabularDenoiser(targets["dense_d3K2"])
    assert_sampler_law(TauLeaping(process, steps=3, multi_event=policy), denoiser, num_samples=50_000)
    assert_sampler_law(TauLeaping(process, steps=3, fill=False, multi_event=policy), denoiser, num_samples=50_000)


@pytest.mark.parametrize("kind", [*BINNED, *EXACT, "fixed_size"])
def test_samples_follow_the_computed_law(kind: str, targets: dict[str, Tensor]) -> None:
    process, denoiser = AbsorbingProcess(2, 4, Constant(3.0)), TabularDenoiser(targets["ising_ring_d4"])
    if kind in EXACT:
        sampler = EXACT[kind](process)
    elif kind == "fixed_size":
        sampler = FirstHitting(process, tokens_per_call=3)
    else:
        sampler = BINNED[kind](process, 3)
    assert_sampler_law(sampler, denoiser, num_samples=100_000)


def test_uniformization_samples_the_data_and_the_test_has_power(targets: dict[str, Tensor]) -> None:
    """chi-square at 2e5 samples accepts uniformization and rejects 16-step Tweedie, whose KL is only .0014."""
    pmf = targets["ising_ring_d4"]
    process, denoiser = AbsorbingProcess(2, 4), TabularDenoiser(pmf)
    assert_sampler_law(Uniformization(process), denoiser, pmf, num_samples=200_000)
    with pytest.raises(AssertionError, match="do not follow the law"):
        assert_sampler_law(Tweedie(process, steps=16), denoiser, pmf, num_samples=200_000)


def test_chi_square_has_its_level() -> None:
    law = torch.tensor([[0.4, 0.3], [0.2, 0.1]], dtype=torch.float64)
    values = []
    for seed in range(400):
        draws = torch.multinomial(law.flatten(), 2000, True, generator=torch.Generator().manual_seed(seed))
        values.append(chi_square(torch.stack([draws // 2, draws % 2], 1), law))
    assert 0.02 < sum(v < 0.05 for v in values) / 400 < 0.09


@pytest.mark.parametrize("seed", range(20))
def test_divergences_stay_below_their_bounds(seed: int) -> None:
    """KL <= KL_path <= (TC + DTC) max dp on random Dirichlet targets and random grids."""
    torch.manual_seed(seed)
    for length, size in ((2, 2), (2, 3), (3, 2), (3, 3), (1, 3)):
        concentration = torch.full((size**length,), 0.5, dtype=torch.float64)
        pmf = torch.distributions.Dirichlet(concentration).sample().view((size,) * length)
        steps = int(torch.randint(1, 8, ()))
        inner = torch.rand(steps - 1, dtype=torch.float64).sort().values
        fractions = torch.cat([torch.zeros(1).double(), inner, torch.ones(1).double()])
        profile = information.profile(pmf)
        path = float((fractions.diff() * profile.g(fractions[:-1])).sum()) - float(profile.f[-1])
        bound = (information.total_correlation(pmf) + information.dual_total_correlation(pmf)) * fractions.diff().max()
        law = enumerate_bins(pmf, fractions)
        assert kl_divergence(pmf, law) <= path + 1e-12
        assert path <= float(bound) + 1e-12


def test_conditional_laws_are_exact(targets: dict[str, Tensor]) -> None:
    for name in NAMES:
        pmf = targets[name]
        size, length = pmf.shape[0], pmf.dim()
        process, denoiser = AbsorbingProcess(size, length, Constant(3.0)), TabularDenoiser(pmf)
        for prompt in (
            [0] + [size] * (length - 1),
            [size] * (length - 1) + [1],
            [0, 1] + [size] * (length - 2),
        ):
            given = torch.tensor(prompt)
            conditional = pmf.clone()
            for axis, token in enumerate(prompt):
                if token < size:
                    keep = torch.arange(size) == token
                    conditional *= keep.view([-1 if a == axis else 1 for a in range(length)])
            conditional /= conditional.sum()
            for build in (FirstHitting, Uniformization, NextReaction):
                law = exact_law(build(process), denoiser, given)
                torch.testing.assert_close(law, conditional, rtol=0, atol=1e-12)


@pytest.mark.usefixtures("as_user")
def test_kl_and_tv_have_their_values() -> None:
    p, q = torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.25, 0.25, 0.5])
    assert kl_divergence(p, q) == pytest.approx(math.log(2))
    assert kl_divergence(q, p) == math.inf
    assert total_variation(p, q) == 0.5
    with pytest.raises(ValueError, match="they must agree"):
        kl_divergence(p, q[:2])


def test_laws_too_large_or_of_random_times_are_refused() -> None:
    with pytest.raises(ValueError, match="small vocabularies"):
        exact_law(Tweedie(AbsorbingProcess(2, 20), steps=2), ParityDenoiser(20, 2))

    class Timed:
        takes_time = True

        def __call__(self, tokens: Tensor, t: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
            return ParityDenoiser(3, 2)(tokens, t, positions)

    process = AbsorbingProcess(2, 3)
    with pytest.raises(ValueError, match="depends on time"):
        exact_law(FirstHitting(process), Timed())

    def unlabelled(tokens: Tensor, t: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        assert positions is not None
        weight = torch.zeros(1) if t is None else t[positions[:, 0]].float()
        return torch.stack([weight, -weight], -1).expand(len(positions), 2).log_softmax(-1)

    with pytest.raises(ValueError, match="depends on time"):
        exact_law(FirstHitting(process), unlabelled)
    plain = exact_law(FirstHitting(process), lambda x, t=None, p=None: ParityDenoiser(3, 2)(x, None, p))
    torch.testing.assert_close(plain, exact_law(FirstHitting(process), ParityDenoiser(3, 2)))
    assert float(exact_law(FirstHitting(AbsorbingProcess(2, 0)), ProductDenoiser(torch.ones(0, 2)))) == 1.0
    timed, timeless = (exact_law(Tweedie(process, steps=3), d) for d in (Timed(), ParityDenoiser(3, 2)))
    assert torch.equal(timed, timeless)


def test_a_mask_inside_the_vocabulary_gives_the_same_law(targets: dict[str, Tensor]) -> None:
    pmf = targets["dense_d3K2"]
    wide = torch.zeros(3, 3, 3, dtype=torch.float64)
    wide[:2, :2, :2] = pmf
    moved = wide[[2, 0, 1]][:, [2, 0, 1]][:, :, [2, 0, 1]]  # ids 1, 2 are clean, 0 is the mask
    inside = AbsorbingProcess(3, 3, mask_id=0)
    law = exact_law(Tweedie(inside, steps=3), TabularDenoiser(moved, mask_id=0))
    plain = exact_law(Tweedie(AbsorbingProcess(2, 3), steps=3), TabularDenoiser(pmf))
    torch.testing.assert_close(law[1:, 1:, 1:], plain, rtol=0, atol=1e-15)
    assert float(law.sum()) == pytest.approx(1.0)


@pytest.mark.parametrize("name", NAMES)
def test_the_small_targets_are_the_oracles(name: str, targets: dict[str, Tensor], oracles: dict[str, Any]) -> None:
    expected = torch.tensor(oracles["targets"][name]["pmf"], dtype=torch.float64)
    torch.testing.assert_close(targets[name].flatten(), expected, rtol=1e-9, atol=1e-10)
