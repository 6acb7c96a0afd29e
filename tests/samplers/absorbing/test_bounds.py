"""The formula sheet against the oracles, scipy's integrals and the enumeration of ordered partitions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate
from torch import Tensor

from samplers.absorbing import bounds
from samplers.absorbing.information import (
    Profile,
    markov_chain_profile,
    parity_profile,
    permutation_profile,
    product_profile,
    profile,
    repeated_symbol_profile,
    total_correlation,
)

ENDS = ["dense_d2K2", "dense_d3K2", "ising_ring_d4", "parity_d4", "product_d3K3"]
TARGETS = [*ENDS, "perm_d4"]
HALF = torch.tensor([0.5, 0.5], dtype=torch.float64)
FLIP = torch.tensor([[0.9, 0.1], [0.1, 0.9]], dtype=torch.float64)


def close(value: float) -> Any:
    """Equal to the ten digits of the oracle file."""
    return pytest.approx(value, rel=2e-9, abs=1e-11)


def oracle_pmf(oracles: dict[str, Any], name: str) -> Tensor:
    target = oracles["targets"][name]
    if name.startswith("dense"):  # the file's recipe, for more than its ten digits
        i = torch.arange(target["K"] ** target["d"], dtype=torch.float64)
        table = 1 + torch.remainder(7 * i**2 + 3 * i + 2, 11)
    else:
        table = torch.tensor(target["pmf"], dtype=torch.float64)
    return (table / table.sum()).reshape((target["K"],) * target["d"])


def random_pmf(length: int, vocab_size: int, seed: int) -> Tensor:
    weights = np.random.default_rng(seed).dirichlet(np.full(vocab_size**length, 0.5))
    return torch.tensor(weights).reshape((vocab_size,) * length)


def chain(length: int) -> Profile:
    return markov_chain_profile(HALF, FLIP, length)


def uniform_grid(steps: int) -> Tensor:
    return torch.arange(steps + 1, dtype=torch.float64) / steps


def frozen_rate_grid(steps: int, reveal: Callable[[float], float]) -> list[float]:
    """Fractions of tau-leaping on equal log-linear steps, hazard h/t = 1/(N - k); the last step is forced."""
    fractions = [0.0]
    for k in range(steps - 1):
        fractions.append(fractions[-1] + (1 - fractions[-1]) * reveal(1 / (steps - k)))
    return [*fractions, 1.0]


def kappa_times(horizon: float, early_stop: float, c: float) -> list[float]:
    times = [horizon]
    while times[-1] > early_stop:
        times.append(max(times[-1] - c * min(1.0, times[-1]), early_stop))
    return times


def ordered_partitions(items: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], ...]]:
    if not items:
        yield ()
    for size in range(1, len(items) + 1):
        for block in itertools.combinations(items, size):
            for rest in ordered_partitions(tuple(i for i in items if i not in block)):
                yield (block, *rest)


def law_given_partition(pmf: Tensor, partition: tuple[tuple[int, ...], ...]) -> Tensor:
    """Blocks are revealed in turn, a block's tokens independently; impossible contexts give a uniform law."""
    axes, shown, law = range(pmf.dim()), set[int](), torch.ones_like(pmf)
    for block in partition:
        for i in block:
            seen = _marginal(pmf, shown | {i}, axes)
            context = _marginal(pmf, shown, axes)
            law = law * torch.where(context > 0, seen / context.clamp(min=1e-300), 1 / pmf.shape[0])
        shown |= set(block)
    return law


def _marginal(pmf: Tensor, kept: set[int], axes: range) -> Tensor:
    dropped = [axis for axis in axes if axis not in kept]
    return pmf.sum(dropped, keepdim=True) if dropped else pmf


def output_law(pmf: Tensor, steps: int) -> Tensor:
    """Law of a sampler with N equal reveal bins: k non-empty bins can lie in C(N, k) ways."""
    length = pmf.dim()
    return sum(
        (
            math.comb(steps, len(partition)) / steps**length * law_given_partition(pmf, partition)
            for partition in ordered_partitions(tuple(range(length)))
        ),
        torch.zeros_like(pmf),
    )


def divergence(p: Tensor, q: Tensor) -> float:
    return float((torch.xlogy(p, p) - torch.xlogy(p, q)).sum())


# B1, B2: the ends of the process


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("horizon", [1, 2, 4, 6, 8])
def test_initialisation_oracle(oracles: dict[str, Any], name: str, horizon: int) -> None:
    target = oracles["targets"][name]
    right, made = target["init_KL"][str(horizon)], profile(oracle_pmf(oracles, name))
    bound = bounds.init_kl_bound(target["d"], target["K"], horizon)
    exact = bounds.init_kl_exact(made, target["K"], horizon)
    assert bound == close(right["bound_d_e^-T_logK"])
    assert exact == close(right["exact_uniform_surrogate"])
    assert bounds.init_kl_marginal(made, horizon) == close(right["exact_marginal_surrogate"])
    assert float(exact) <= float(bound)


def test_small_divergences_keep_their_digits() -> None:
    """Parity of four bits: all four must survive, so the divergence is exactly e^{-4T} log 2."""
    made = parity_profile(4, 2)
    right = math.exp(-32.0) * math.log(2)
    assert bounds.init_kl_marginal(made, 8.0) == pytest.approx(right, rel=1e-12)
    assert bounds.init_kl_exact(made, 2, 8.0) == pytest.approx(right, rel=1e-12)


@pytest.mark.parametrize("name", ["ising_ring_d4", "product_d3K3"])
@pytest.mark.parametrize("horizon", [1.0, 4.0])
def test_surrogate_is_best_at_the_survival_probability(oracles: dict[str, Any], name: str, horizon: float) -> None:
    """T17: epsilon = e^{-T} is the minimiser; for any epsilon the formula is the enumerated divergence."""
    pmf, best = oracle_pmf(oracles, name), math.exp(-horizon)
    made, size = profile(pmf), pmf.shape[0]

    def value(epsilon: float) -> float:
        return float(bounds.init_kl_exact(made, size, horizon, epsilon=epsilon))

    assert value(best) == pytest.approx(float(bounds.init_kl_exact(made, size, horizon)), rel=1e-12)
    assert value(0.95 * best) > value(best)
    assert value(1.05 * best) > value(best)
    for epsilon in (best, 0.3):
        surrogate = torch.full((size + 1,), epsilon / size, dtype=torch.float64)
        surrogate[size] = 1 - epsilon
        assert value(epsilon) == pytest.approx(
            divergence(corrupted(pmf, horizon), product_law([surrogate] * pmf.dim())), rel=1e-10
        )
    clean = [best * _marginal(pmf, {i}, range(pmf.dim())).reshape(-1) for i in range(pmf.dim())]
    marginal = [torch.nn.functional.pad(law, (0, 1), value=1 - best) for law in clean]
    assert bounds.init_kl_marginal(made, horizon) == pytest.approx(
        divergence(corrupted(pmf, horizon), product_law(marginal)), rel=1e-9, abs=1e-14
    )


def product_law(factors: list[Tensor]) -> Tensor:
    law = torch.ones((), dtype=torch.float64)
    for factor in factors:
        law = law[..., None] * factor
    return law


def corrupted(pmf: Tensor, time: float) -> Tensor:
    """q_t on (K + 1)^d, token by token, of clean data."""
    size, survival = pmf.shape[0], math.exp(-time)
    kernel = torch.zeros(size, size + 1, dtype=torch.float64)
    kernel[:, :size] = survival * torch.eye(size, dtype=torch.float64)
    kernel[:, size] = 1 - survival
    for _ in range(pmf.dim()):  # the first axis goes in, the new one comes out last
        pmf = torch.tensordot(pmf, kernel, dims=([0], [0]))
    return pmf


def test_initial_bound_with_masks_in_data() -> None:
    masked = -math.log1p(-math.exp(-0.5))
    assert bounds.init_kl_bound(3, 2, 0.5, masks_in_data=True) == pytest.approx(3 * masked)
    assert masked > math.exp(-0.5) * math.log(2)
    assert bounds.init_kl_bound(3, 9, 4.0, masks_in_data=True) == bounds.init_kl_bound(3, 9, 4.0)


@pytest.mark.parametrize("name", TARGETS)
def test_early_stopping_oracle(oracles: dict[str, Any], name: str) -> None:
    target = oracles["targets"][name]
    right = target["early_stop_delta0.01"]
    assert bounds.early_stop_tv(target["d"], 0.01) == close(right["TV"])
    assert bounds.early_stop_kl(target["d"], 0.01) == close(right["KL(q0||q_delta)"])


def test_early_stopping_by_enumeration(oracles: dict[str, Any]) -> None:
    pmf = oracle_pmf(oracles, "dense_d3K2")
    clean = corrupted(pmf, 0.3)[:2, :2, :2]
    assert bounds.early_stop_tv(3, 0.3) == pytest.approx(1 - float(clean.sum()))
    assert bounds.early_stop_kl(3, 0.3) == pytest.approx(divergence(pmf, clean))


# B4, B5, B6: path errors


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize(
    ("run", "reveal"),
    [
        ("tweedie_loglinear", lambda hazard: hazard),
        ("tau_exp_loglinear", lambda hazard: -math.expm1(-hazard)),
        ("tau_poisson_reject", lambda hazard: hazard * math.exp(-hazard)),
    ],
)
def test_path_error_oracle(oracles: dict[str, Any], name: str, run: str, reveal: Callable[[float], float]) -> None:
    runs, made = oracles["targets"][name]["runs"], profile(oracle_pmf(oracles, name))
    counts = [n for n in (1, 2, 3, 4, 8, 16) if f"{run}_N{n}" in runs]
    assert len(counts) >= 4
    for steps in counts:
        right, fractions = runs[f"{run}_N{steps}"], frozen_rate_grid(steps, reveal)
        path = bounds.path_kl(fractions, made)
        assert path == close(right["path_KL"])
        assert right["KL"] <= path + 1e-9
        assert path <= bounds.path_kl_bound(fractions, made) + 1e-12


@pytest.mark.parametrize("name", TARGETS)
def test_fixed_size_oracle(oracles: dict[str, Any], name: str) -> None:
    target, made = oracles["targets"][name], profile(oracle_pmf(oracles, name))
    for size in (1, 2):
        sizes = [size] * (target["d"] // size) + [target["d"] % size] * (target["d"] % size > 0)
        path = bounds.fixed_size_path_kl(sizes, made)
        assert path == close(target["runs"][f"fixed_size_s{size}"]["path_KL"])
        assert path <= bounds.fixed_size_bound(size, made) + 1e-12
        assert bounds.fixed_size_bound(size, made) <= bounds.li_cai_bound(size, made) + 1e-12


@pytest.mark.parametrize("length", [16, 64, 256])
def test_binary_chain_oracle(oracles: dict[str, Any], length: int) -> None:
    right, made = oracles["binary_chain_closed_form"][f"d{length}_flip0.1"], chain(length)
    for steps, path in right["tweedie_path_KL"].items():
        assert bounds.path_kl(uniform_grid(int(steps)), made) == pytest.approx(path, rel=1e-9)
    uniform = right["asymptotic_N*path_KL uniform grid (TC+DTC)/2"]
    assert bounds.uniform_grid_constant(made) == pytest.approx(uniform, rel=1e-9)
    optimal = right["asymptotic optimal grid (int sqrt|g'|)^2/2"]  # of a coarse quadrature, see the next test
    assert bounds.optimal_grid_constant(made) == pytest.approx(optimal, rel=5e-5)


@pytest.mark.parametrize("length", [16, 64, 256])
def test_best_grid_of_the_chain(length: int) -> None:
    """The constant to ten digits, from the second derivative of the chain's own geometric series."""
    n = np.arange(1, length)
    flip = (1 - 0.8**n) / 2
    lagged = (length - n) * (-flip * np.log(flip) - (1 - flip) * np.log1p(-flip))

    def root(p: float) -> float:
        q = 1 - p
        first, second = (n - 1) * q ** np.maximum(n - 2.0, 0), (n - 1) * (n - 2) * q ** np.maximum(n - 3.0, 0)
        curvature = 2 * q ** (n - 1.0) - 4 * p * first + p**2 * second
        return math.sqrt(math.log(2) * length * (length - 1) * q ** (length - 2) - float(lagged @ curvature))

    knots = [0, 0.01, 0.1, 0.5, 0.9, 0.99, 1]
    area = sum(integrate.quad(root, a, b, epsabs=1e-11)[0] for a, b in itertools.pairwise(knots))
    assert bounds.optimal_grid_constant(chain(length)) == pytest.approx(area**2 / 2, rel=1e-10)


def test_path_error_against_length(oracles: dict[str, Any]) -> None:
    for key, right in oracles["KL_vs_d_binary_chain_flip0.1_tweedie"].items():
        steps, length = (int(part[1:]) for part in key.split("_"))
        assert bounds.path_kl(uniform_grid(steps), chain(length)) == close(right["path_KL"])


def test_path_error_is_an_integral_of_the_slope() -> None:
    """The second form of B4, and a part of the grid has its own part of the error."""
    made, grid = chain(9), [0.05, 0.2, 0.6, 0.95]
    parts = [
        integrate.quad(lambda p, b=b: (b - p) * float(made.slope(p)), a, b, epsabs=1e-13)[0]
        for a, b in itertools.pairwise(grid)
    ]
    assert bounds.path_kl(grid, made) == pytest.approx(sum(parts), rel=1e-10)
    assert bounds.path_kl(grid[:3], made) + bounds.path_kl(grid[2:], made) == pytest.approx(sum(parts), rel=1e-10)


def test_path_error_by_enumeration_of_partitions() -> None:
    """KL_path is the mean divergence given the bins; one step costs the total correlation."""
    pmf, steps = random_pmf(3, 2, seed=3), 4
    mean = sum(
        math.comb(steps, len(partition)) / steps**3 * divergence(pmf, law_given_partition(pmf, partition))
        for partition in ordered_partitions((0, 1, 2))
    )
    made = profile(pmf)
    assert bounds.path_kl(uniform_grid(steps), made) == pytest.approx(mean, rel=1e-12)
    assert bounds.path_kl([0, 1], made) == pytest.approx(total_correlation(pmf), rel=1e-12)
    assert bounds.fixed_size_path_kl([3], made) == pytest.approx(total_correlation(pmf), rel=1e-12)
    pairs = [
        divergence(pmf, law_given_partition(pmf, (b, r))) for b, r in (((0, 1), (2,)), ((0, 2), (1,)), ((1, 2), (0,)))
    ]
    assert bounds.fixed_size_path_kl([2, 1], made) == pytest.approx(np.mean(pairs), rel=1e-12)


@pytest.mark.parametrize("seed", range(100))
def test_order_of_the_bounds(seed: int) -> None:
    """T07, path level: KL <= KL_path <= bound <= crude bound <= crudest bound."""
    rng = np.random.default_rng(seed)
    length, size = int(rng.integers(1, 4)), int(rng.integers(2, 4))
    pmf = random_pmf(length, size, seed)
    made, slack = profile(pmf), 1e-12
    grid = torch.tensor([0.0, *np.sort(rng.uniform(size=rng.integers(0, 9))), 1.0])
    path = bounds.path_kl(grid, made)
    bound, crude = bounds.path_kl_bound(grid, made), bounds.path_kl_crude(grid, made)
    assert -slack <= path <= bound + slack
    assert bound <= crude + slack
    assert crude <= bounds.path_kl_crudest(grid, length, size) + slack
    steps = len(grid) - 1
    exact = divergence(pmf, output_law(pmf, steps))
    assert exact <= bounds.path_kl(uniform_grid(steps), made) + slack


@given(st.lists(st.floats(0, 1), max_size=6), st.floats(0, 1), st.integers(2, 40))
def test_refining_a_grid_helps(points: list[float], extra: float, length: int) -> None:
    made = permutation_profile(length)
    coarse, fine = sorted([0.0, *points, 1.0]), sorted([0.0, *points, extra, 1.0])
    assert bounds.path_kl(fine, made) <= bounds.path_kl(coarse, made) + 1e-10


def test_steps_of_a_network() -> None:
    made = chain(8)
    grid = uniform_grid(5)
    excess = bounds.path_nelbo(grid, made) - made.entropy
    assert excess == pytest.approx(bounds.path_kl(grid, made), rel=1e-12)


def test_product_laws_cost_nothing() -> None:
    made = product_profile(0.7, 1024)
    assert bounds.path_kl(uniform_grid(7), made) == 0.0
    assert bounds.path_kl_bound(uniform_grid(7), made) == pytest.approx(0.0, abs=1e-11)
    assert bounds.optimal_grid_constant(made) == 0.0


def test_published_bound_is_coarser() -> None:
    made = chain(16)
    both = made.total_correlation + made.dual_total_correlation
    assert [bounds.li_cai_bound(s, made) * 16 / both for s in (1, 2, 3, 4, 5, 8, 9)] == pytest.approx(
        [0, 1, 3, 3, 7, 7, 15]
    )
    assert bounds.fixed_size_bound(5, made) == pytest.approx(4 / 16 * both)


@pytest.mark.parametrize("length", [2, 3, 4, 31, 1024])
def test_best_grid_of_parity(length: int) -> None:
    right = 2 * math.log(2) * (length - 1) / length
    assert bounds.optimal_grid_constant(parity_profile(length, 2)) == pytest.approx(right, rel=1e-12)


def test_best_grid_against_quadrature() -> None:
    for made in (chain(16), permutation_profile(12), repeated_symbol_profile(7, 3)):
        root, _ = integrate.quad(lambda p, made=made: math.sqrt(made.slope(p)), 0, 1, epsabs=1e-11, limit=400)
        assert bounds.optimal_grid_constant(made) == pytest.approx(root**2 / 2, rel=1e-9)


def test_constants_are_limits() -> None:
    made, steps = chain(16), 4096
    assert steps * bounds.path_kl(uniform_grid(steps), made) == pytest.approx(
        bounds.uniform_grid_constant(made), rel=2e-3
    )
    p = np.linspace(0, 1, 20001)
    mass = integrate.cumulative_trapezoid(np.sqrt(made.slope(torch.tensor(p)).numpy()), p, initial=0)
    best = np.interp(np.linspace(0, 1, steps + 1), mass / mass[-1], p)
    assert steps * bounds.path_kl(torch.tensor(best), made) == pytest.approx(
        bounds.optimal_grid_constant(made), rel=2e-3
    )


# B3: frozen rates


def test_tau_leaping_oracle(oracles: dict[str, Any]) -> None:
    made = profile(oracle_pmf(oracles, "ising_ring_d4"))
    rows = oracles["kappa_schedule_ising_ring_d4"]
    assert len(rows) == 10
    for row in rows:
        times = kappa_times(row["T"], row["delta"], row["c"])
        assert len(times) - 1 == row["N"] == bounds.kappa_steps(row["T"], row["delta"], row["c"])
        error = bounds.tau_path_kl(times, made, 2)
        assert error.init == close(row["init"])
        assert error.time == close(row["time_term"])
        assert error.data == close(row["data_term"])
        assert error.total == close(row["path_bound"])
        assert row["KL(q_delta||p) surrogate init"] <= error.total
    for row in oracles["uniform_rate_ising_ring_d4"]:
        assert bounds.kappa_steps(row["T"], row["delta"], row["c"]) == row["N"]


def test_time_term_against_quadrature() -> None:
    times = [3.0, 2.2, 1.0, 0.4, 0.0]

    def cost(t: float, frozen: float) -> float:
        rate = 1 / math.expm1(t)
        return -math.expm1(-t) * (rate * math.log(rate / frozen) - rate + frozen)

    right = sum(
        integrate.quad(cost, b, a, args=(1 / math.expm1(a),), epsabs=1e-12)[0] for a, b in itertools.pairwise(times)
    )
    error = bounds.tau_path_kl(times, product_profile(0.5, 3), 2)
    assert error.time == pytest.approx(3 * right, rel=1e-9)
    assert error.data == 0.0


def test_time_term_of_many_steps_keeps_its_digits() -> None:
    """Second order in the step: 1e5 steps cost a hundredth of 1e4."""
    made = product_profile(0.5, 1)
    few, many = (
        bounds.tau_path_kl(torch.linspace(4.0, 1.0, n + 1, dtype=torch.float64), made, 2).time for n in (10**4, 10**5)
    )
    assert few / many == pytest.approx(100, rel=1e-3)


def test_product_tau_leaping_oracle(oracles: dict[str, Any]) -> None:
    right, times = oracles["product_tau_leaping_T4_delta0.05_c0.2"], kappa_times(4.0, 0.05, 0.2)
    assert bounds.tau_mask_probability(times) == close(right["mask_prob_sampler"])
    assert bounds.tau_product_kl(times, 3) == close(right["KL=3*kl_Bernoulli"])
    error = bounds.tau_path_kl(times, product_profile(0.5, 3), 2)
    assert bounds.tau_product_kl(times, 3) <= error.time


# B7: first order of the output law


@pytest.mark.parametrize("name", ["ising_ring_d4", "parity_d4"])
def test_first_order_oracle(oracles: dict[str, Any], name: str) -> None:
    right = oracles["first_order_constants_uniform_reveal_grid"][name]
    limits = bounds.first_order_limits(oracle_pmf(oracles, name))
    assert limits.tv == close(right["N*TV limit = 0.5*sum|Delta|"])
    assert limits.leak == close(right["N*leak limit"])
    kl = right["N^2*KL limit (full support) = 0.5*sum Delta^2/q"]
    assert limits.kl == (math.inf if kl is None else close(kl))
    law = output_law(oracle_pmf(oracles, name), 64)
    tv = float((law - oracle_pmf(oracles, name)).abs().sum() / 2)
    assert 64 * tv == close(right["N*TV at N=64"])
    assert 64**2 * divergence(oracle_pmf(oracles, name), law) == pytest.approx(right["N^2*KL at N=64"], rel=1e-8)


def constrained_pmf() -> Tensor:
    """Three places, three symbols, some combinations forbidden."""
    pmf = random_pmf(3, 3, seed=8)
    pmf[0, 0], pmf[1, :, 2], pmf[2, 1, 1] = 0.0, 0.0, 0.0
    return pmf / pmf.sum()


@pytest.mark.parametrize("pmf", [random_pmf(2, 3, 1), random_pmf(3, 2, 2), random_pmf(4, 2, 3), constrained_pmf()])
def test_first_order_is_the_slope_in_one_over_n(pmf: Tensor) -> None:
    """Richardson: N(p_out - q0) at N and 2N leaves an error of second order."""
    deviation = bounds.first_order_deviation(pmf)
    coarse, fine = (n * (output_law(pmf, n) - pmf) for n in (2000, 4000))
    np.testing.assert_allclose(deviation.numpy(), (2 * fine - coarse).numpy(), rtol=0, atol=3e-6)
    assert float(deviation.sum()) == pytest.approx(0.0, abs=1e-14)


def test_first_order_of_one_token_and_of_products() -> None:
    assert bounds.first_order_limits(HALF) == bounds.FirstOrder(0.0, 0.0, 0.0)
    law = product_law([HALF, torch.tensor([0.2, 0.8], dtype=torch.float64), HALF])
    assert bounds.first_order_limits(law).tv == pytest.approx(0.0, abs=1e-15)


# B8: closed forms


def test_closed_form_oracle(oracles: dict[str, Any]) -> None:
    right = oracles["closed_forms"]
    for steps in (8, 64):
        row = right[f"parity_d4_N{steps}"]
        assert bounds.parity_kl(4, steps, 2) == close(row["KL"])
        assert bounds.parity_path_kl(4, steps, 2) == close(row["path_KL"])
        assert bounds.parity_path_kl(4, steps, 2) == close(row["pi_N"] * math.log(2))
    assert bounds.perm_kl([2, 2]) == close(right["perm_d4_sizes[2, 2]"])
    assert bounds.perm_kl([2] * 4) == close(right["perm_d8_sizes[2, 2, 2, 2]"])


@pytest.mark.parametrize(("length", "vocab_size", "steps"), [(2, 2, 1), (3, 3, 4), (4, 2, 5), (1, 3, 2)])
def test_closed_forms_by_enumeration(length: int, vocab_size: int, steps: int) -> None:
    states = list(itertools.product(range(vocab_size), repeat=length))
    shape = (vocab_size,) * length
    parity = torch.tensor([float(sum(x) % vocab_size == 0) for x in states], dtype=torch.float64).reshape(shape)
    parity = parity / parity.sum()
    repeat = torch.tensor([float(len(set(x)) == 1) for x in states], dtype=torch.float64).reshape(shape)
    repeat = repeat / repeat.sum()
    enumerated = [divergence(law, output_law(law, steps)) for law in (parity, repeat)]
    found = [bounds.parity_kl(length, steps, vocab_size), bounds.repeat_kl(length, steps, vocab_size)]
    assert found == pytest.approx(enumerated, rel=1e-10, abs=1e-14)
    path = bounds.path_kl(uniform_grid(steps), parity_profile(length, vocab_size))
    assert bounds.parity_path_kl(length, steps, vocab_size) == pytest.approx(path, rel=1e-10, abs=1e-14)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 6, 50])
def test_many_steps_on_parity(length: int) -> None:
    """The expansion for large N against exact integer sums."""
    steps = 64 * length
    for n in (steps, steps + 1, 5 * steps):
        below = sum(j ** (length - 1) for j in range(n))
        exact = (n**length - length * below) / n**length
        assert bounds.parity_path_kl(length, n, 2) == pytest.approx(exact * math.log(2), rel=1e-11, abs=1e-15)
    assert bounds.parity_kl(length, 10**9, 2) == pytest.approx((length > 1) * length / 4e9, rel=1e-6, abs=1e-18)


def test_permutations_are_tight() -> None:
    for sizes in ([1] * 5, [2, 3], [3, 1, 1], [5]):
        path = bounds.fixed_size_path_kl(sizes, permutation_profile(5))
        assert bounds.perm_kl(sizes) == pytest.approx(path, rel=1e-12, abs=1e-14)


# B10: uniformization


@pytest.mark.parametrize(("length", "horizon", "early_stop", "size"), [(20, 6.0, 0.01, 2), (1024, 12.0, 0.001, 27)])
def test_uniformization_oracle(
    oracles: dict[str, Any], length: int, horizon: float, early_stop: float, size: int
) -> None:
    right = oracles["NFE"][f"uniformization_d{length}_T{horizon}_delta{early_stop}_K{size}"]
    times, span = kappa_times(horizon, early_stop, 0.5), (horizon, early_stop)
    grid, aware = bounds.unif_candidates_grid(times, length), bounds.unif_candidates_mask_aware(times, length)
    assert bounds.unif_candidates_absorb(length, *span) == close(right["absorb_candidates_lambda=d*r_fine_limit"])
    assert grid == close(right["absorb_candidates_grid_c0.5"])
    assert aware == close(right["absorb_candidates_grid_c0.5_lambda=m(x)*r"])
    assert bounds.unif_calls(length, *span) == close(right["absorb_true_jumps=network_calls"])
    assert bounds.unif_candidates_uniform(length, size, *span) == close(right["uniform_candidates_fine_limit"])
    assert bounds.unif_jumps_uniform(length, size, *span) == close(right["uniform_true_jumps"])
    assert bounds.unif_candidates_paper(length, *span) == close(right["paper_style_absorb_d*(log T+log 1/delta)"])
    assert bounds.unif_candidates_uniform_paper(length, *span) == pytest.approx(
        length * (horizon + math.log(1 / early_stop))
    )


def test_candidate_counts_are_integrals_of_the_rates() -> None:
    length, size, horizon, stop = 5, 3, 4.0, 0.1
    absorbing, _ = integrate.quad(lambda t: length / math.expm1(t), stop, horizon)
    uniform, _ = integrate.quad(lambda t: length * (-1 / math.expm1(-t) - 1 / size), stop, horizon)
    assert bounds.unif_candidates_absorb(length, horizon, stop) == pytest.approx(absorbing, rel=1e-9)
    assert bounds.unif_candidates_uniform(length, size, horizon, stop) == pytest.approx(uniform, rel=1e-9)
    fine = np.linspace(horizon, stop, 200_001)
    assert bounds.unif_candidates_grid(torch.tensor(fine), length) == pytest.approx(absorbing, rel=1e-3)
    calls = length * (math.exp(-stop) - math.exp(-horizon))
    assert bounds.unif_candidates_mask_aware(torch.tensor(fine), length) == pytest.approx(calls, rel=1e-3)
    assert bounds.unif_calls(length, horizon, stop) == pytest.approx(calls)
    assert bounds.unif_calls(length, math.inf, 0.0) == length
    share, nostop = 0.2, bounds.unif_nostop(length, horizon, 0.2)
    rate, _ = integrate.quad(lambda t: length * float(bounds.total_rate_bound(t, share)), 0, horizon)
    assert nostop == pytest.approx(rate, rel=1e-9)


@pytest.mark.parametrize("index", [0, 1])
def test_masks_in_data_oracle(oracles: dict[str, Any], index: int) -> None:
    right = oracles["mask_in_data_no_early_stopping"][index]
    table = torch.tensor(right["pmf"], dtype=torch.float64)
    pmf = (table / table.sum()).reshape((right["S"],) * right["d"])
    shares = bounds.mask_shares(pmf, right["S"] - 1)
    assert shares == (pytest.approx(right["gamma"], rel=1e-8), pytest.approx(right["gamma_sum"], rel=1e-8))
    bound = bounds.unif_nostop(right["d"], 8.0, right["gamma_sum"])
    assert bound == close(right["uniformization_EN_bound_d*log(1+(1-e^-T)/gamma_sum)_T8"])


@pytest.mark.parametrize("time", [0.0, 0.05, 0.5, 3.0])
def test_score_bounds_hold_on_an_enumerated_law(oracles: dict[str, Any], time: float) -> None:
    right = oracles["mask_in_data_no_early_stopping"][0]
    table = torch.tensor(right["pmf"], dtype=torch.float64)
    law = (table / table.sum()).reshape(3, 3)
    shares = bounds.mask_shares(law, 2)
    kernel = torch.eye(3, dtype=torch.float64) * math.exp(-time)
    kernel[:, 2] += -math.expm1(-time)
    noised = kernel.T @ law @ kernel
    worst, total = 0.0, 0.0
    for axis in (0, 1):
        rows = noised.movedim(axis, -1)
        scores = rows[..., :2] / rows[..., 2:]
        worst, total = max(worst, float(scores.max())), max(total, float(scores.sum(-1).max()))
    assert worst <= float(bounds.score_bound(time, shares.single)) + 1e-12
    assert total <= float(bounds.total_rate_bound(time, shares.total)) + 1e-12
    assert (
        float(bounds.score_bound(time, shares.single)) <= float(bounds.score_bound_crude(time, shares.single)) + 1e-12
    )
    if time == 0:  # attained
        assert worst == pytest.approx(1 / shares.single)
        assert total == pytest.approx(1 / shares.total)


def test_shares_of_extreme_laws() -> None:
    assert bounds.mask_shares(torch.tensor([0.0, 1.0]).double(), 1) == (math.inf, math.inf)
    assert bounds.mask_shares(torch.tensor([1.0, 0.0]).double(), 1) == (0.0, 0.0)
    assert bounds.score_bound(0.5, 0.0) == pytest.approx(1 / math.expm1(0.5))


# Numbers of steps


def test_lazy_calls_oracle(oracles: dict[str, Any]) -> None:
    for key, right in oracles["NFE"]["lazy_cache_NFE N(1-(1-1/N)^d)"].items():
        length, steps = (int(part[1:]) for part in key.split("_"))
        assert bounds.lazy_nfe(uniform_grid(steps).diff(), length) == close(right)
        assert bounds.lazy_nfe(uniform_grid(steps).diff(), 1, length) == close(right)


def test_lazy_calls_by_enumeration() -> None:
    grid, length = [0.0, 0.5, 0.6, 1.0], 3
    mean = sum(
        math.prod(np.diff(grid)[list(bins)]) * len(set(bins)) for bins in itertools.product(range(3), repeat=length)
    )
    assert bounds.lazy_nfe(torch.as_tensor(grid).diff(), length) == pytest.approx(mean)


@pytest.mark.parametrize("c", [0.4, 0.1, 0.02])
def test_step_estimate_of_the_grid(c: float) -> None:
    assert bounds.kappa_steps_estimate(10.0, 1e-3, c) == pytest.approx(bounds.kappa_steps(10, 1e-3, c), abs=1.5)


def test_published_rate_term_by_term() -> None:
    right = 2.0 * (5 * math.exp(-3.0) + 5 * (3.0 + math.log(7 / 0.1)) * (3.0 + math.log(10)) ** 2 / 11)
    assert bounds.seed_rate(5, 3.0, 0.1, 11, 7.0, constant=2.0) == pytest.approx(right)


def test_steps_for_an_accuracy(oracles: dict[str, Any]) -> None:
    pmf = oracle_pmf(oracles, "ising_ring_d4")
    made, epsilon = profile(pmf), 1e-3
    guaranteed = bounds.steps_for(epsilon, made)
    assert guaranteed == math.ceil(0.5833468203 / epsilon)
    assert bounds.path_kl(uniform_grid(guaranteed), made) <= epsilon
    typical = bounds.steps_for_path(epsilon, made)
    assert bounds.path_kl(uniform_grid(typical), made) == pytest.approx(epsilon, rel=0.02)
    law = bounds.steps_for_law(epsilon, pmf)
    assert divergence(pmf, output_law(pmf, law)) == pytest.approx(epsilon, rel=0.1)
    assert law < typical < guaranteed
    parity = oracle_pmf(oracles, "parity_d4")
    assert bounds.parity_kl(4, bounds.steps_for_law(epsilon, parity), 2) == pytest.approx(epsilon, rel=0.02)
    assert bounds.steps_for(epsilon, product_profile(1.0, 5)) == 1


@pytest.mark.parametrize(("epsilon", "length"), [(1.0, 4), (0.3, 4), (1e-3, 17), (1e-8, 64)])
def test_least_steps_for_parity(epsilon: float, length: int) -> None:
    steps = bounds.steps_for_parity(epsilon, length, 2)
    assert bounds.parity_kl(length, steps, 2) <= epsilon
    assert steps == 1 or bounds.parity_kl(length, steps - 1, 2) > epsilon


# Arguments


def test_tensors_in_tensors_out() -> None:
    horizons = torch.tensor([1.0, 4.0])
    made = chain(4)
    for function in (
        lambda t: bounds.init_kl_bound(4, 2, t),
        lambda t: bounds.init_kl_exact(made, 2, t),
        lambda t: bounds.init_kl_exact(made, 2, t, epsilon=0.1),
        lambda t: bounds.init_kl_marginal(made, t),
        lambda t: bounds.early_stop_tv(4, t),
        lambda t: bounds.early_stop_kl(4, t),
        lambda t: bounds.unif_candidates_absorb(4, t, 0.1),
        lambda t: bounds.unif_calls(4, t, 0.0),
        lambda t: bounds.unif_candidates_uniform(4, 2, t, 0.1),
        lambda t: bounds.unif_jumps_uniform(4, 2, t, 0.1),
        lambda t: bounds.unif_nostop(4, t, 0.1),
        lambda t: bounds.unif_candidates_paper(4, t, 0.1),
        lambda t: bounds.unif_candidates_uniform_paper(4, t, 0.1),
        lambda t: bounds.score_bound(t, 0.1),
        lambda t: bounds.score_bound_crude(t, 0.1),
        lambda t: bounds.total_rate_bound(t, 0.1),
        lambda t: bounds.seed_rate(4, t, 0.1, 8, 2.0),
    ):
        values, single = function(horizons), function(4.0)
        assert isinstance(values, Tensor) and values.dtype == torch.float64 and values.shape == (2,)
        assert isinstance(single, float)
        assert float(values[1]) == pytest.approx(single, rel=1e-12)
    lengths = bounds.unif_calls(torch.tensor([8, 64]), 6.0, 0.01)
    assert isinstance(lengths, Tensor) and float(lengths[1] / lengths[0]) == pytest.approx(8.0)


MADE = permutation_profile(4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bounds.init_kl_bound(0, 2, 1.0), "length=0 must be a whole number"),
        (lambda: bounds.init_kl_bound(2.5, 2, 1.0), "length=2.5"),
        (lambda: bounds.init_kl_bound(2, 2, 0.0), "horizon=0 must be positive"),
        (lambda: bounds.init_kl_bound(2, 2, math.nan), "horizon=nan"),
        (lambda: bounds.init_kl_bound(2, 2, torch.tensor([1.0, -3.0])), "horizon=-3"),
        (lambda: bounds.init_kl_exact(MADE, 0, 1.0), "vocab_size=0"),
        (lambda: bounds.init_kl_exact(MADE, 4, 1.0, epsilon=1.0), "epsilon=1.0 must not be 0 or 1"),
        (lambda: bounds.init_kl_exact(MADE, 4, 1.0, epsilon=2.0), r"epsilon=2 must be in \[0, 1\]"),
        (lambda: bounds.init_kl_marginal(MADE, -1.0), "horizon=-1"),
        (lambda: bounds.early_stop_tv(2, -0.1), "early_stop=-0.1 must be at least 0"),
        (lambda: bounds.path_kl([0.0], MADE), "fractions has shape"),
        (lambda: bounds.path_kl([0.0, 1.2], MADE), "fractions=1.2"),
        (lambda: bounds.path_kl([0.0, math.nan, 1.0], MADE), "fractions=nan"),
        (lambda: bounds.path_kl_bound([0.0, 0.6, 0.5, 1.0], MADE), "fractions decrease"),
        (lambda: bounds.path_kl_crude([[0.0, 1.0]], MADE), "fractions has shape"),
        (lambda: bounds.path_kl_crudest([0.0, 1.0], 0, 2), "length=0"),
        (lambda: bounds.path_nelbo([1.0, 0.0], MADE), "fractions decrease"),
        (lambda: bounds.fixed_size_path_kl([2, 1], MADE), "sum to the length 4"),
        (lambda: bounds.fixed_size_path_kl([4, 0], MADE), "at least 1"),
        (lambda: bounds.fixed_size_path_kl([], MADE), "sum to the length 4"),
        (lambda: bounds.fixed_size_bound(5, MADE), r"tokens_per_call=5 must lie in 1\.\.4"),
        (lambda: bounds.li_cai_bound(0, MADE), "tokens_per_call=0"),
        (lambda: bounds.tau_path_kl([1.0, 2.0], MADE, 4), "times must decrease"),
        (lambda: bounds.tau_path_kl([1.0], MADE, 4), "times has shape"),
        (lambda: bounds.tau_path_kl([math.inf, 1.0], MADE, 4), "infinite time"),
        (lambda: bounds.tau_mask_probability([1.0, -1.0]), "negative"),
        (lambda: bounds.tau_product_kl([1.0, 0.5], 0), "length=0"),
        (lambda: bounds.first_order_deviation(torch.tensor([0.5, 0.6])), "sums to 1.1"),
        (lambda: bounds.parity_kl(0, 1, 2), "length=0"),
        (lambda: bounds.parity_path_kl(2, 0, 2), "steps=0"),
        (lambda: bounds.repeat_kl(2, 2, 0), "vocab_size=0"),
        (lambda: bounds.perm_kl([]), "at least one stage"),
        (lambda: bounds.unif_candidates_absorb(2, 1.0, 1.0), "early_stop=1.0 must be below horizon=1.0"),
        (lambda: bounds.unif_candidates_absorb(2, 1.0, 0.0), "early_stop=0 must be positive"),
        (lambda: bounds.unif_candidates_grid([1.0, 0.0], 2), "stop at some delta"),
        (lambda: bounds.unif_calls(2, 1.0, -1.0), "early_stop=-1"),
        (lambda: bounds.unif_nostop(2, 1.0, 0.0), "mask_share=0"),
        (lambda: bounds.score_bound(0.0, 0.0), "no bound"),
        (lambda: bounds.score_bound(-1.0, 0.1), "t=-1"),
        (lambda: bounds.score_bound_crude(1.0, 0.0), "mask_share=0"),
        (lambda: bounds.mask_shares(HALF, 2), "mask_id=2"),
        (lambda: bounds.kappa_steps(4.0, 0.1, 1.0), "c=1.0"),
        (lambda: bounds.kappa_steps(0.1, 0.2, 0.5), "early_stop=0.2"),
        (lambda: bounds.kappa_steps_estimate(4.0, 0.1, 0.0), "c=0.0"),
        (lambda: bounds.kappa_steps_estimate(0.5, 0.1, 0.5), "early_stop <= 1 <= horizon"),
        (lambda: bounds.lazy_nfe([1.0], 0), "length=0"),
        (lambda: bounds.lazy_nfe([0.5, 0.5, 0.5], 4), "above 1"),
        (lambda: bounds.lazy_nfe([-0.5], 4), "increments=-0.5"),
        (lambda: bounds.seed_rate(2, 1.0, 0.1, 0, 2.0), "steps=0"),
        (lambda: bounds.seed_rate(2, 1.0, 0.1, 1, 0.5), "score_range=0.5 must be at least 1"),
        (lambda: bounds.steps_for(0.0, MADE), "epsilon=0"),
        (lambda: bounds.steps_for_path(-1.0, MADE), "epsilon=-1"),
        (lambda: bounds.steps_for_law(0.0, HALF), "epsilon=0"),
        (lambda: bounds.steps_for_parity(0.0, 2, 2), "epsilon=0"),
    ],
)
@pytest.mark.usefixtures("as_user")
def test_senseless_arguments_are_named(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
