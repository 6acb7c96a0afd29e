"""Entropies and information profiles against the oracles, closed forms, scipy and plain enumeration."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from samplers.absorbing import information
from samplers.absorbing.denoisers import ProductDenoiser, TabularDenoiser
from samplers.absorbing.information import Profile, estimate_profile, profile
from samplers.absorbing.schedules import Cosine

TARGETS = ["dense_d2K2", "dense_d3K2", "ising_ring_d4", "parity_d4", "perm_d4", "product_d3K3"]
HALF = torch.tensor([0.5, 0.5], dtype=torch.float64)
FLIP = torch.tensor([[0.9, 0.1], [0.1, 0.9]], dtype=torch.float64)


def oracle_pmf(oracles: dict[str, Any], name: str) -> Tensor:
    """The target's table, normalised again because the file has ten digits."""
    target = oracles["targets"][name]
    table = torch.tensor(target["pmf"], dtype=torch.float64)
    return (table / table.sum()).reshape((target["K"],) * target["d"])


def random_pmf(length: int, vocab_size: int, seed: int) -> Tensor:
    weights = np.random.default_rng(seed).dirichlet(np.full(vocab_size**length, 0.5))
    return torch.tensor(weights).reshape((vocab_size,) * length)


def plain_entropy(pmf: Tensor, kept: tuple[int, ...]) -> float:
    """H(X_A) with numpy sums and Python logarithms."""
    dropped = tuple(axis for axis in range(pmf.dim()) if axis not in kept)
    marginal = pmf.numpy().sum(axis=dropped).ravel() if kept else np.ones(1)
    return -sum(p * math.log(p) for p in marginal if p > 0)


def subsets(items: list[int]) -> list[tuple[int, ...]]:
    return [kept for size in range(len(items) + 1) for kept in itertools.combinations(items, size)]


def stationary(matrix: Tensor) -> Tensor:
    return torch.linalg.matrix_power(matrix, 200)[0]


# Laws given as tables


@pytest.mark.parametrize("name", TARGETS)
def test_oracle_entropies(oracles: dict[str, Any], name: str) -> None:
    target, pmf = oracles["targets"][name], oracle_pmf(oracles, name)
    made = profile(pmf)
    values = {
        "H": (information.entropy(pmf), made.entropy, float(made.F(1.0))),
        "TC": (information.total_correlation(pmf), made.total_correlation),
        "DTC": (information.dual_total_correlation(pmf), made.dual_total_correlation),
        "g(0)": (float(made.g(0.0)),),
        "g(0.5)": (float(made.g(0.5)),),
        "g(1)": (float(made.g(1.0)),),
        "F(0.5)": (float(made.F(0.5)),),
    }
    for key, found in values.items():
        assert found == pytest.approx([target[key]] * len(found), rel=2e-9, abs=1e-9), key
    np.testing.assert_allclose(made.f.numpy(), target["f_m"], rtol=2e-9, atol=1e-9)


@pytest.mark.parametrize(("length", "vocab_size"), [(1, 3), (2, 3), (3, 2), (4, 2)])
def test_profile_is_what_its_definition_says(length: int, vocab_size: int) -> None:
    """g as summed conditional entropies, and its slope as summed conditional information, by subsets."""
    pmf = random_pmf(length, vocab_size, seed=length)
    made, p = profile(pmf), 0.3
    g = slope = mean = 0.0
    for kept in subsets(list(range(length))):
        mean += p ** len(kept) * (1 - p) ** (length - len(kept)) * plain_entropy(pmf, kept)
    for i in range(length):
        others = [axis for axis in range(length) if axis != i]
        for kept in subsets(others):
            weight = p ** len(kept) * (1 - p) ** (len(others) - len(kept))
            g += weight * (plain_entropy(pmf, (*kept, i)) - plain_entropy(pmf, kept))
        for j in others:
            rest = [axis for axis in others if axis != j]
            for kept in subsets(rest):
                weight = p ** len(kept) * (1 - p) ** (len(rest) - len(kept))
                parts = [plain_entropy(pmf, (*kept, *extra)) for extra in ((i,), (j,), (i, j), ())]
                slope += weight * (parts[0] + parts[1] - parts[2] - parts[3])
    assert (float(made.F(p)), float(made.g(p))) == pytest.approx((mean, g), rel=1e-12)
    assert float(made.slope(p)) == pytest.approx(slope, rel=1e-11, abs=1e-14)


@given(st.integers(1, 3), st.integers(1, 3), st.integers(0, 2**31 - 1))
def test_algebraic_laws(length: int, vocab_size: int, seed: int) -> None:
    pmf = random_pmf(length, vocab_size, seed)
    made, p = profile(pmf), torch.linspace(0.0, 1.0, 33, dtype=torch.float64)
    tiny = 1e-13
    assert float(made.f[0]) == 0.0
    assert bool((made.h >= -tiny).all())
    assert bool((made.h.diff() <= tiny).all())  # f concave
    assert bool((made.g(p).diff() <= tiny).all())
    assert bool((made.slope(p) >= -tiny).all())
    both = information.total_correlation(pmf) + information.dual_total_correlation(pmf)
    assert float(made.g(0.0) - made.g(1.0)) == pytest.approx(both, abs=1e-12)
    assert both <= length * math.log(vocab_size) + tiny
    nodes, weights = np.polynomial.legendre.leggauss(8)
    integral = float(made.g(torch.tensor((nodes + 1) / 2)) @ torch.tensor(weights)) / 2
    assert integral == pytest.approx(information.entropy(pmf), abs=1e-12)
    h = 1e-6
    assert float(made.F(0.4 + h) - made.F(0.4 - h)) / (2 * h) == pytest.approx(float(made.g(0.4)), abs=1e-8)
    assert float(made.g(0.4 - h) - made.g(0.4 + h)) / (2 * h) == pytest.approx(float(made.slope(0.4)), abs=1e-8)


@pytest.mark.parametrize(
    ("pmf", "reason"),
    [
        (torch.tensor([0.5, 0.6]), "sums to 1.1"),
        (torch.tensor([1.5, -0.5]), "negative"),
        (torch.tensor([math.nan, 1.0]), "NaN"),
        (torch.full((2, 3), 1 / 6), "same size K"),
        (torch.tensor(1.0), "one axis"),
        (torch.zeros(0), "one axis"),
    ],
)
def test_what_is_not_a_law_is_refused(pmf: Tensor, reason: str) -> None:
    for function in (
        information.entropy,
        information.total_correlation,
        information.dual_total_correlation,
        profile,
    ):
        with pytest.raises(ValueError, match=reason):
            function(pmf)


def test_too_many_tokens_to_enumerate() -> None:
    with pytest.raises(ValueError, match="17 tokens, enumeration stops at 16"):
        profile(torch.ones((1,) * 17))


# The class


@pytest.mark.parametrize("degree", [0, 1, 7, 4095])
def test_bernstein_is_a_binomial_mean(degree: int) -> None:
    coefficients = torch.tensor(np.random.default_rng(1).normal(size=degree + 1))
    p = torch.tensor([[0.0, 1e-6, 0.02], [0.5, 0.999, 1.0]], dtype=torch.float64)
    found = information.bernstein(coefficients, p)
    law = stats.binom.pmf(np.arange(degree + 1), degree, p.numpy()[..., None])
    np.testing.assert_allclose(found.numpy(), law @ coefficients.numpy(), rtol=0, atol=1e-10)
    assert found[0, 0] == coefficients[0] and found[1, 2] == coefficients[-1]  # exact at the ends


def test_many_points_are_taken_in_pieces() -> None:
    made = information.permutation_profile(4096)
    p = torch.linspace(0.0, 1.0, 2100, dtype=torch.float64)  # more than one chunk
    assert torch.equal(made.g(p)[[0, 1500, 2099]], made.g(p[[0, 1500, 2099]]))


def test_increments_are_kept_without_rounding() -> None:
    made = Profile.from_increments([0.3, 0.2, 0.1])
    assert made.h.tolist() == [0.3, 0.2, 0.1]
    np.testing.assert_allclose(made.f.numpy(), [0.0, 0.3, 0.5, 0.6], rtol=1e-15)
    assert repr(made) == "Profile(length=3, entropy=0.6 nats)"
    assert made.total_correlation == pytest.approx(3 * 0.3 - 0.6)
    assert made.dual_total_correlation == pytest.approx(0.6 - 3 * 0.1)
    assert float(Profile([0.0, 1.0]).slope(0.5)) == 0.0


@pytest.mark.parametrize("f", [[0.0], [0.1, 0.2], [0.0, math.nan], [0.0, math.inf], [[0.0, 1.0]]])
def test_bad_profiles_are_refused(f: list[Any]) -> None:
    with pytest.raises(ValueError, match="f"):
        Profile(torch.tensor(f, dtype=torch.float64))
    with pytest.raises(ValueError, match=r"h has shape"):
        Profile.from_increments(torch.zeros(0))


@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan])
def test_reveal_probabilities_lie_in_the_unit_interval(p: float) -> None:
    with pytest.raises(ValueError, match=r"leaves \[0, 1\]"):
        information.permutation_profile(3).g(p)


# Closed forms


def repeated_pmf(length: int, vocab_size: int) -> Tensor:
    table = torch.zeros((vocab_size,) * length, dtype=torch.float64)
    for symbol in range(vocab_size):
        table[(symbol,) * length] = 1 / vocab_size
    return table


def parity_pmf(length: int, vocab_size: int) -> Tensor:
    table = torch.zeros((vocab_size,) * length, dtype=torch.float64)
    for x in itertools.product(range(vocab_size), repeat=length):
        table[x] = float(sum(x) % vocab_size == 0) / vocab_size ** (length - 1)
    return table


def permutation_pmf(length: int) -> Tensor:
    table = torch.zeros((length,) * length, dtype=torch.float64)
    for x in itertools.permutations(range(length)):
        table[x] = 1 / math.factorial(length)
    return table


def chain_pmf(initial: Tensor, transition: Tensor, length: int) -> Tensor:
    table = initial
    for _ in range(length - 1):
        table = table[..., None] * transition
    return table


CYCLE = torch.tensor([[0.1, 0.7, 0.2], [0.0, 0.3, 0.7], [0.8, 0.1, 0.1]], dtype=torch.float64)  # not reversible


@pytest.mark.parametrize(
    ("made", "pmf"),
    [
        (information.parity_profile(4, 3), parity_pmf(4, 3)),
        (information.parity_profile(1, 3), parity_pmf(1, 3)),
        (information.permutation_profile(4), permutation_pmf(4)),
        (information.repeated_symbol_profile(3, 4), repeated_pmf(3, 4)),
        (information.product_profile(math.log(3), 4), torch.full((3,) * 4, 3.0**-4, dtype=torch.float64)),
        (information.markov_chain_profile(HALF, FLIP, 6), chain_pmf(HALF, FLIP, 6)),
        (
            information.markov_chain_profile(stationary(CYCLE), CYCLE, 5),
            chain_pmf(stationary(CYCLE), CYCLE, 5),
        ),
        (information.markov_chain_profile(HALF, FLIP, 1), HALF),
    ],
)
def test_closed_forms_are_the_enumerated_profiles(made: Profile, pmf: Tensor) -> None:
    np.testing.assert_allclose(made.f.numpy(), profile(pmf).f.numpy(), rtol=0, atol=1e-13)


@pytest.mark.parametrize("length", [16, 64, 256])
def test_binary_chain_oracle(oracles: dict[str, Any], length: int) -> None:
    right = oracles["binary_chain_closed_form"][f"d{length}_flip0.1"]
    made = information.markov_chain_profile(HALF, FLIP, length)
    found = [made.entropy, made.total_correlation, made.total_correlation + made.dual_total_correlation]
    assert found == pytest.approx([right["H"], right["TC"], right["TC+DTC"]], rel=1e-9)


def test_long_chain_against_its_own_geometric_series() -> None:
    """In p, gaps between revealed tokens are geometric: F(p) without any binomial coefficient."""
    length, n = 1024, np.arange(1, 1024)
    made = information.markov_chain_profile(HALF, FLIP, length)
    flipped = (1 - 0.8**n) / 2
    lagged = -flipped * np.log(flipped) - (1 - flipped) * np.log1p(-flipped)
    for p in (1e-3, 0.1, 0.5, 0.99):
        gaps = (length - n) * p**2 * (1 - p) ** (n - 1)
        right = math.log(2) * (1 - (1 - p) ** length) + float(gaps @ lagged)
        assert float(made.F(p)) == pytest.approx(right, rel=1e-12)
    assert bool((made.h.diff() < 0).all())


def test_long_chain_conditional_entropies() -> None:
    """g as a double sum over the nearest revealed neighbours, at distances l and r."""
    length, p = 40, 0.15
    lagged = [0.0]
    for n in range(1, length):
        flip = (1 - 0.8**n) / 2
        lagged.append(-flip * math.log(flip) - (1 - flip) * math.log1p(-flip))
    g = 0.0
    for i in range(length):
        for left in range(1, i + 2):  # i + 1: nothing is revealed on the left
            for right in range(1, length - i + 1):
                open_left, open_right = left == i + 1, right == length - i
                weight = (1 - p) ** (left + right - 2) * (1 if open_left else p) * (1 if open_right else p)
                if open_left and open_right:
                    entropy = math.log(2)
                elif open_left or open_right:
                    entropy = lagged[right] if open_left else lagged[left]
                else:
                    entropy = lagged[left] + lagged[right] - lagged[left + right]
                g += weight * entropy
    made = information.markov_chain_profile(HALF, FLIP, length)
    assert float(made.g(p)) == pytest.approx(g, rel=1e-12)


def test_chains_that_do_not_start_stationary_are_refused() -> None:
    start = torch.tensor([1.0, 0.0], dtype=torch.float64)
    with pytest.raises(ValueError, match="not stationary"):
        information.markov_chain_profile(start, FLIP, 4)
    with pytest.raises(ValueError, match="laws"):
        information.markov_chain_profile(HALF, 2 * FLIP, 4)
    with pytest.raises(ValueError, match="shape"):
        information.markov_chain_profile(HALF, torch.eye(3), 4)


@pytest.mark.parametrize(
    ("function", "arguments", "name"),
    [
        (information.product_profile, (-1.0, 3), "mean_entropy"),
        (information.product_profile, (math.inf, 3), "mean_entropy"),
        (information.product_profile, (1.0, 0), "length"),
        (information.parity_profile, (0, 2), "length"),
        (information.parity_profile, (2, 0), "vocab_size"),
        (information.permutation_profile, (0,), "length"),
        (information.repeated_symbol_profile, (3, 0), "vocab_size"),
        (information.markov_chain_profile, (HALF, FLIP, 0), "length"),
    ],
)
def test_senseless_sizes_are_named(function: Any, arguments: tuple[Any, ...], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        function(*arguments)


# Estimates from data


class WrongTable:
    """A normalised denoiser unrelated to the data: a fixed random law for each context and place."""

    def __init__(self, length: int, vocab_size: int) -> None:
        rng = np.random.default_rng(5)
        laws = rng.dirichlet(np.ones(vocab_size), size=((vocab_size + 1) ** length, length))
        self.log_probs = torch.tensor(np.log(laws))
        self.digits = (vocab_size + 1) ** torch.arange(length)
        self.times: list[Tensor | None] = []

    def __call__(self, tokens: Tensor, t: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        assert positions is not None
        self.times.append(t)
        return self.log_probs[(tokens * self.digits).sum(1)[positions[:, 0]], positions[:, 1]]


def losses_by_enumeration(denoiser: WrongTable, pmf: Tensor) -> dict[tuple[int, ...], float]:
    """E_x of the summed -log p(x_i | x_A) over i outside A, for every visible set A."""
    length, vocab_size = pmf.dim(), pmf.shape[0]
    states = torch.tensor(list(itertools.product(range(vocab_size), repeat=length)))
    losses = {}
    for kept in subsets(list(range(length))):
        hidden = torch.tensor([axis not in kept for axis in range(length)])
        if not bool(hidden.any()):
            continue
        shown = states.masked_fill(hidden, vocab_size)
        tables = denoiser.log_probs[(shown * denoiser.digits).sum(1)]
        truth = tables.gather(2, states[..., None])[..., 0]
        losses[kept] = float(-(truth[:, hidden].sum(1) * pmf.reshape(-1)).sum())
    return losses


def draw(pmf: Tensor, count: int, seed: int) -> Tensor:
    chosen = np.random.default_rng(seed).choice(pmf.numel(), size=count, p=pmf.reshape(-1).numpy())
    return torch.tensor(np.stack(np.unravel_index(chosen, tuple(pmf.shape)), 1))


def cross_profile(losses: dict[tuple[int, ...], float], length: int) -> Profile:
    increments = [
        np.mean([loss / (length - m) for kept, loss in losses.items() if len(kept) == m]) for m in range(length)
    ]
    return Profile.from_increments(torch.tensor(np.array(increments)))


def test_losses_are_the_integral_of_g() -> None:
    """T05: the integrals over mask probability and over time, and the any-order loss, are one number."""
    pmf = random_pmf(3, 2, seed=9)
    losses = losses_by_enumeration(WrongTable(3, 2), pmf)
    integral = cross_profile(losses, 3).entropy

    def masked_loss(level: float) -> float:
        return sum(loss * level ** (3 - len(kept)) * (1 - level) ** len(kept) for kept, loss in losses.items())

    nodes, weights = np.polynomial.legendre.leggauss(40)
    nodes, weights = (nodes + 1) / 2, weights / 2
    by_level = sum(w * masked_loss(x) / x for x, w in zip(nodes, weights, strict=True))
    schedule = Cosine()
    by_time = sum(
        w * float(schedule.hazard(x)) * masked_loss(float(schedule.mask_probability(x)))
        for x, w in zip(nodes, weights, strict=True)
    )
    any_order = np.mean([3 / k * np.mean([v for kept, v in losses.items() if len(kept) == 3 - k]) for k in (1, 2, 3)])
    assert [by_level, by_time, any_order] == pytest.approx([integral] * 3, abs=1e-10)
    exact = cross_profile(losses, 3)
    assert float(exact.g(0.3)) == pytest.approx(
        sum(loss * 0.3 ** len(kept) * 0.7 ** (2 - len(kept)) for kept, loss in losses.items()),
        rel=1e-12,
    )  # each hidden token sees the others revealed with probability p


@pytest.mark.parametrize("draws", [1, 3])
def test_estimates_are_unbiased(draws: int) -> None:
    pmf, denoiser = random_pmf(3, 2, seed=9), WrongTable(3, 2)
    right = cross_profile(losses_by_enumeration(denoiser, pmf), 3)
    tokens = draw(pmf, 4000, seed=2)
    found = estimate_profile(denoiser, tokens, mask_id=2, draws_per_count=draws)
    assert abs(found.nelbo - right.entropy) < 4 * found.nelbo_error
    assert bool(((found.profile.h - right.h).abs() < 4 * found.standard_errors).all())
    assert found.profile.entropy == pytest.approx(found.nelbo, rel=1e-12)
    # power: the estimate tells this network from the exact one
    assert found.nelbo - information.entropy(pmf) > 4 * found.nelbo_error
    assert bool(((found.profile.h - profile(pmf).h).abs() > 4 * found.standard_errors).any())


def test_more_draws_shrink_the_error() -> None:
    pmf, tokens = random_pmf(3, 2, seed=9), draw(random_pmf(3, 2, seed=9), 200, seed=3)
    denoiser = TabularDenoiser(pmf)
    errors = [
        float(estimate_profile(denoiser, tokens, mask_id=2, draws_per_count=k).standard_errors[1]) for k in (1, 16)
    ]
    assert errors[1] < errors[0]


def test_exact_denoiser_has_the_exact_profile(oracles: dict[str, Any]) -> None:
    pmf = oracle_pmf(oracles, "ising_ring_d4")
    found = estimate_profile(TabularDenoiser(pmf), draw(pmf, 3000, seed=1), mask_id=2)
    assert abs(found.nelbo - information.entropy(pmf)) < 4 * found.nelbo_error
    assert bool(((found.profile.h - profile(pmf).h).abs() < 4 * found.standard_errors).all())


def test_estimates_do_not_depend_on_the_batch() -> None:
    denoiser, tokens = TabularDenoiser(random_pmf(3, 2, seed=4)), draw(random_pmf(3, 2, seed=4), 10, seed=4)

    def run(part: Tensor, **options: Any) -> Tensor:
        generator = torch.Generator().manual_seed(7)
        return estimate_profile(denoiser, part, mask_id=2, generator=generator, **options).increments

    whole = run(tokens)
    assert torch.equal(whole, run(tokens, batch_size=7))
    assert torch.equal(whole, run(tokens, progress=True))
    assert torch.equal(whole[6:8], run(tokens[6:8], first=6))
    assert not torch.equal(whole, estimate_profile(denoiser, tokens, mask_id=2).increments)


def test_one_sequence_has_an_estimate_but_no_error() -> None:
    found = estimate_profile(ProductDenoiser(HALF.expand(4, 2)), torch.zeros(1, 4).long(), mask_id=2)
    assert found.nelbo == pytest.approx(4 * math.log(2))
    assert found.nelbo_error == math.inf
    assert bool(torch.isinf(found.standard_errors).all())


def test_mask_inside_the_vocabulary_is_never_predicted() -> None:
    def flat(tokens: Tensor, t: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        assert positions is not None
        return torch.full((len(positions), 4), 0.25).log()  # mass on the mask, id 1

    found = estimate_profile(flat, torch.tensor([[0, 2, 3]]), mask_id=1)
    assert found.profile.h.tolist() == pytest.approx([math.log(3)] * 3)


def test_time_of_a_network_follows_the_masked_fraction() -> None:
    denoiser = WrongTable(2, 2)
    estimate_profile(denoiser, torch.tensor([[0, 1]]), mask_id=2, schedule=Cosine())
    (times,) = denoiser.times
    assert times is not None
    assert Cosine().mask_probability(times).tolist() == pytest.approx([1.0, 0.5])


@pytest.mark.usefixtures("as_user")
def test_bad_arguments_of_estimates() -> None:
    denoiser, tokens = ProductDenoiser(HALF.expand(3, 2)), torch.zeros(2, 3).long()
    with pytest.raises(TypeError, match=r"tokens.long\(\)"):
        estimate_profile(denoiser, tokens.float(), mask_id=2)
    for bad, name in [
        (torch.zeros(0, 3).long(), "tokens has shape"),
        (torch.zeros(3).long(), "tokens has shape"),
        (tokens + 2, "mask id 2"),
        (tokens - 1, "id -1"),
        (tokens + 5, "id 5"),
    ]:
        with pytest.raises(ValueError, match=name):
            estimate_profile(denoiser, bad, mask_id=2)
    with pytest.raises(ValueError, match="draws_per_count=0"):
        estimate_profile(denoiser, tokens, mask_id=2, draws_per_count=0)
    with pytest.raises(ValueError, match="batch_size=0"):
        estimate_profile(denoiser, tokens, mask_id=2, batch_size=0)
    certain = ProductDenoiser(torch.tensor([[0.0, 1.0]] * 3))
    with pytest.raises(ValueError, match=r"row 0, with 0 of 3 shown, a mean log-probability of -inf"):
        estimate_profile(certain, tokens, mask_id=2)
