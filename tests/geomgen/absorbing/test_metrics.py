"""Bounds and baselines against exact likelihoods."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from geomgen.absorbing import (
    NELBO,
    log_frequencies,
    marginal_baseline,
    nelbo,
    nelbo_any_order,
    nelbo_steps,
    uniform_baseline,
)
from samplers.absorbing import AbsorbingProcess, Cosine, FirstHitting, TabularDenoiser, Tweedie
from samplers.absorbing.denoisers import Denoiser

D, K = 3, 2
ALL = torch.cartesian_prod(*[torch.arange(K)] * D)
PROCESS = AbsorbingProcess(K, D)


def law() -> Tensor:
    values = torch.rand((K,) * D, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) ** 2
    return values / values.sum()


def smoothed(share: float) -> Denoiser:
    """The exact denoiser mixed with the uniform law: a model with known errors."""
    exact = TabularDenoiser(law())

    def denoiser(tokens: Tensor, t: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        return ((1 - share) * exact(tokens, t, positions).exp() + share / K).log()

    return denoiser


def nelbo_by_orders(denoiser: Denoiser, x: Tensor, given: tuple[int, ...] = ()) -> float:
    """Mean over all orders of the free places of the autoregressive negative log-likelihood."""
    total, orders = 0.0, list(itertools.permutations([i for i in range(D) if i not in given]))
    for order in orders:
        hidden = set(order)
        for i in order:
            context = torch.tensor([[K if j in hidden else int(x[j]) for j in range(D)]])
            total -= float(denoiser(context, None, torch.tensor([[0, i]]))[0, x[i]])
            hidden.remove(i)
    return total / len(orders)


Estimator = Callable[..., NELBO]


@pytest.mark.parametrize("estimate", [nelbo, nelbo_any_order])
@pytest.mark.parametrize("given", [None, (1,)])
def test_both_estimators_are_unbiased(estimate: Estimator, given: tuple[int, ...] | None) -> None:
    denoiser, repeats = smoothed(0.3), 4000
    shown = None if given is None else torch.tensor([i in given for i in range(D)])
    options = {"num_draws": 5} if estimate is nelbo else {}
    found = estimate(denoiser, ALL.repeat_interleave(repeats, 0), PROCESS, given=shown, batch_size=20_000, **options)
    values = found.per_sequence.view(len(ALL), repeats)
    right = torch.tensor([nelbo_by_orders(denoiser, x, given or ()) for x in ALL], dtype=torch.float64)
    assert ((values.mean(1) - right).abs() < 4 * values.std(1) / math.sqrt(repeats) + 1e-12).all()
    assert found.tokens_scored.eq(D - len(given or ())).all()


def test_the_exact_denoiser_gives_the_exact_likelihood_in_any_order() -> None:
    found = nelbo_any_order(TabularDenoiser(law()), ALL, PROCESS).per_sequence
    torch.testing.assert_close(found, -law().flatten().log())
    given = torch.tensor([False, True, False])
    conditional = law() / law().sum((0, 2), keepdim=True)
    found = nelbo_any_order(TabularDenoiser(law()), ALL, PROCESS, given=given).per_sequence
    torch.testing.assert_close(found, -conditional.flatten().log())


def independent(logits: Tensor) -> Denoiser:
    def denoiser(tokens: Tensor, t: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        shape = tokens.shape if positions is None else positions.shape[:1]
        return logits.log_softmax(0).expand(*shape, len(logits))

    return denoiser


def test_independent_tokens() -> None:
    process, answer = AbsorbingProcess(8, 2, mask_id=7), torch.tensor([[3, 1]])
    denoiser = independent(torch.tensor([0, 2.0, 0, 0, 0, 0, 0, -50]))
    assert nelbo(denoiser, answer, process, num_draws=1600).mean == pytest.approx(-3.1889 * -1, abs=0.03)
    assert nelbo_any_order(denoiser, answer, process).mean == pytest.approx(3.18888, abs=1e-5)


def test_one_draw_and_an_empty_answer() -> None:
    denoiser, answer = smoothed(0.1), torch.tensor([[0, 1, 0]])
    one = nelbo(denoiser, answer, PROCESS, num_draws=1, batch_size=16)
    assert math.isfinite(one.mean) and one.monte_carlo_error is None
    for estimate in (nelbo, nelbo_any_order):
        nothing = estimate(denoiser, answer, PROCESS, given=torch.ones(D, dtype=torch.bool))
        assert (nothing.mean, nothing.bits_per_token) == (0.0, 0.0)
        empty = estimate(denoiser, torch.zeros(2, 0, dtype=torch.int64), AbsorbingProcess(K, 0))
        assert empty.per_sequence.tolist() == [0.0, 0.0]


def test_the_monte_carlo_error_is_of_the_right_size() -> None:
    data = ALL.repeat(20, 1)
    means, errors = [], []
    for seed in range(40):
        generator = torch.Generator().manual_seed(seed)
        found = nelbo(smoothed(0.3), data, PROCESS, num_draws=4, generator=generator)
        means.append(found.mean)
        errors.append(found.monte_carlo_error)
    spread, error = np.std(means, ddof=1), np.mean([e for e in errors if e is not None])
    assert 0.7 * spread < error < 4 * spread


def test_a_row_does_not_depend_on_its_batch_and_state_stays() -> None:
    before = torch.get_rng_state()
    for estimate in (nelbo, nelbo_any_order):
        whole = estimate(smoothed(0.3), ALL, PROCESS, generator=torch.Generator().manual_seed(3))
        alone = estimate(smoothed(0.3), ALL[5:6], PROCESS, generator=torch.Generator().manual_seed(3), first=5)
        pieces = estimate(smoothed(0.3), ALL, PROCESS, generator=torch.Generator().manual_seed(3), batch_size=3)
        assert alone.per_sequence[0] == whole.per_sequence[5]
        assert torch.equal(pieces.per_sequence, whole.per_sequence)
    assert torch.equal(torch.get_rng_state(), before)


def test_times_fit_the_number_of_masks() -> None:
    """Given k of d masks, the mask probability follows the Beta(k, d - k + 1) law; half the schedule's at its time."""
    process, seen = AbsorbingProcess(K, D, Cosine()), []

    def denoiser(tokens: Tensor, t: Tensor | None = None, positions: Tensor | None = None) -> Tensor:
        assert t is not None and positions is not None
        seen.append(torch.stack([process.schedule.mask_probability(t), (tokens == K).sum(1).double()], 1))
        return torch.full((len(positions), K), -math.log(K), dtype=torch.float64)

    data = ALL.repeat(2000, 1)
    nelbo(denoiser, data, process, num_draws=3, batch_size=100_000)
    nelbo_any_order(denoiser, data, process, batch_size=100_000)
    for part in seen:
        for k in range(1, D + 1):
            level = part[part[:, 1] == k, 0]
            mean, variance = k / (D + 1), k * (D - k + 1) / ((D + 1) ** 2 * (D + 2))
            assert abs(float(level.mean()) - mean) < 4 * math.sqrt(variance / len(level))
            assert float(level.var()) == pytest.approx(variance, rel=0.1)


def test_steps_bound_tends_to_the_continuous_one() -> None:
    denoiser, weight, repeats = smoothed(0.3), law().flatten(), 3000
    right = sum(float(w) * nelbo_by_orders(denoiser, x) for w, x in zip(weight, ALL, strict=True))
    exact = nelbo_steps(FirstHitting(PROCESS), denoiser, ALL.repeat(repeats, 1), num_draws=2)
    found = exact.per_sequence.view(repeats, len(ALL)) @ weight
    assert abs(float(found.mean()) - right) < 4 * float(found.std()) / math.sqrt(repeats)
    assert exact.monte_carlo_error is not None and 0 < exact.monte_carlo_error < exact.standard_error
    marginals = [law().sum([j for j in range(D) if j != i]) for i in range(D)]
    worst = 0.0
    for i, marginal in enumerate(marginals):
        worst -= float((weight * (0.7 * marginal[ALL[:, i]] + 0.15).log()).sum())
    one_step = nelbo_steps(Tweedie(PROCESS, steps=1), denoiser, ALL)
    assert float((weight * one_step.per_sequence).sum()) == pytest.approx(worst, abs=1e-12)
    assert worst > right + 0.01


def test_baselines() -> None:
    train, held_out = torch.tensor([[0, 1], [0, 2], [0, 2]]), torch.tensor([[0, 2], [1, 1]])
    right = -np.log([[4 / 6, 3 / 6], [1 / 6, 2 / 6]]).sum(1)
    found = marginal_baseline(train, held_out, 3)
    np.testing.assert_allclose(found.per_sequence.numpy(), right)
    assert found.bits_per_token == pytest.approx(right.mean() / 2 / math.log(2))
    assert found.standard_error == pytest.approx(right.std(ddof=1) / math.sqrt(2))
    assert uniform_baseline(held_out, 17).bits_per_token == pytest.approx(math.log2(17))
    shared = log_frequencies(train, 3, per_place=False).exp()
    np.testing.assert_allclose(shared.numpy(), np.array([4, 2, 3]) / 9)


@pytest.mark.usefixtures("as_user")
def test_bad_input() -> None:
    denoiser, empty = smoothed(0.1), torch.zeros(0, D, dtype=torch.int64)
    for estimate in (nelbo, nelbo_any_order):
        with pytest.raises(ValueError, match="empty batch"):
            estimate(denoiser, empty, PROCESS)
        with pytest.raises(ValueError, match="mask id 2"):
            estimate(denoiser, torch.full((1, D), K), PROCESS)
        with pytest.raises(ValueError, match=r"given is torch.int64"):
            estimate(denoiser, ALL, PROCESS, given=ALL)
    with pytest.raises(ValueError, match="num_draws=0"):
        nelbo(denoiser, ALL, PROCESS, num_draws=0)
    with pytest.raises(ValueError, match="num_draws=0"):
        nelbo_steps(Tweedie(PROCESS, steps=2), denoiser, ALL, num_draws=0)
    with pytest.raises(ValueError, match="NaN"):
        nelbo(independent(torch.full((K,), math.nan)), ALL, PROCESS)
    with pytest.raises(ValueError, match=r"outside 0..1"):
        log_frequencies(torch.tensor([[2]]), 2, per_place=True)
    with pytest.raises(ValueError, match="at least one token"):
        log_frequencies(empty, 2, per_place=True)
