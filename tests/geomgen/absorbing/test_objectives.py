"""Losses against exact enumeration, and their behaviour at the edges."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from geomgen.absorbing import (
    any_order,
    lambda_dce,
    masked_cross_entropy,
    masked_nll,
    score_entropy,
    stratified_times,
    t_dce,
    training_loss,
)
from samplers.absorbing import AbsorbingProcess, Cosine, LogLinear
from samplers.absorbing.schedules import Schedule

D, K = 3, 2
MASK = K


class Table(nn.Module):
    """A random normalised prediction for every context of D tokens."""

    def __init__(self) -> None:
        super().__init__()
        random = torch.randn((K + 1) ** D, D, K, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
        self.table = nn.Parameter(random.log_softmax(-1))

    def forward(self, tokens: Tensor, positions: Tensor | None = None) -> Tensor:
        out = self.table[(tokens * torch.tensor([(K + 1) ** 2, K + 1, 1])).sum(1)]
        return out if positions is None else out[positions[:, 0], positions[:, 1]]


def random_law() -> np.ndarray:
    law = np.random.default_rng(4).random((K,) * D)
    return law / law.sum()


def contexts() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """All pairs of data and masks: clean (64, D), corrupted (64, D), number of masks, probability of the data."""
    law, rows = random_law(), []
    for x in itertools.product(range(K), repeat=D):
        for mask in itertools.product((False, True), repeat=D):
            rows.append((x, [MASK if m else a for a, m in zip(x, mask, strict=True)], sum(mask), law[x]))
    clean, corrupted, count, weight = zip(*rows, strict=True)
    return torch.tensor(clean), torch.tensor(corrupted), torch.tensor(count), torch.tensor(np.array(weight))


def integral_of_g() -> float:
    """$\\int_0^1 \\hat g(p) dp$ by plain loops: each token i, each revealed set A of the others."""
    table, law, total = Table().table.detach().numpy(), random_law(), 0.0
    for x in itertools.product(range(K), repeat=D):
        for i in range(D):
            others = [j for j in range(D) if j != i]
            for shown in itertools.product((False, True), repeat=D - 1):
                seen = {j for j, s in zip(others, shown, strict=True) if s}
                context = [x[j] if j in seen else MASK for j in range(D)]
                index = sum(a * (K + 1) ** (D - 1 - j) for j, a in enumerate(context))
                n = len(seen)  # the integral of p^n (1 - p)^(d-1-n) is a beta function
                weight = math.factorial(n) * math.factorial(D - 1 - n) / math.factorial(D)
                total -= law[x] * weight * table[index, i, x[i]]
    return total


def expectation(loss: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor], schedule: Schedule, nodes: int) -> float:
    """Mean of a loss over data, masks and a uniform time on (0, horizon), by enumeration and Gauss-Legendre."""
    clean, corrupted, count, weight = contexts()
    logits, total = Table()(corrupted).detach(), 0.0
    for node, share in zip(*np.polynomial.legendre.leggauss(nodes), strict=True):
        t = torch.full((len(clean),), 0.5 * (node + 1) * schedule.horizon, dtype=torch.float64)
        masked = schedule.mask_probability(t)
        probability = weight * masked**count * (1 - masked) ** (D - count)
        total += 0.5 * share * float((probability * loss(logits, clean, corrupted, t)).sum())
    return total


@pytest.mark.parametrize(("schedule", "nodes"), [(LogLinear(), 4), (Cosine(), 60)])
def test_time_weighted_losses_equal_the_integral(schedule: Schedule, nodes: int) -> None:
    process = AbsorbingProcess(K, D, schedule)

    def dse(logits: Tensor, clean: Tensor, corrupted: Tensor, t: Tensor) -> Tensor:
        log_ratio = (schedule.alpha(t) / schedule.mask_probability(t)).log()
        return score_entropy(logits + log_ratio[:, None, None], clean, corrupted, t, process)

    right = integral_of_g()
    assert expectation(lambda *args: t_dce(*args, process), schedule, nodes) == pytest.approx(right, abs=1e-10)
    assert expectation(dse, schedule, nodes) == pytest.approx(right, abs=1e-10)


def test_lambda_and_count_losses_equal_the_integral() -> None:
    process, right = AbsorbingProcess(K, D), integral_of_g()
    found = expectation(lambda *args: lambda_dce(*args, process), LogLinear(), 4)  # here lambda = t
    assert found == pytest.approx(right, abs=1e-10)
    clean, corrupted, count, weight = contexts()
    chance = torch.tensor([0.0] + [1 / D / math.comb(D, k) for k in range(1, D + 1)], dtype=torch.float64)[count]
    losses = any_order(Table()(corrupted).detach(), clean, corrupted, process)
    assert float((weight * chance * losses).sum()) == pytest.approx(right, abs=1e-10)


def test_unnormalised_scores_cost_what_the_theory_says() -> None:
    """Scores too large by a factor c cost $T\\beta w (c - 1 - \\log c)$ per masked token."""
    process, c = AbsorbingProcess(K, D), 1.7
    clean, corrupted, count, _ = contexts()
    t = torch.full((len(clean),), 0.3, dtype=torch.float64)
    scores = Table()(corrupted).detach() + math.log(0.7 / 0.3)
    right = score_entropy(scores, clean, corrupted, t, process) + count / 0.3 * (c - 1 - math.log(c))
    torch.testing.assert_close(score_entropy(scores + math.log(c), clean, corrupted, t, process), right)


@pytest.mark.parametrize("objective", ["t_dce", "lambda_dce", "any_order"])
def test_random_masks_have_the_right_law(objective: Any) -> None:
    process, table = AbsorbingProcess(K, D, Cosine()), Table()
    clean, _, _, weight = contexts()
    data = clean[torch.multinomial(weight, 40_000, replacement=True, generator=torch.Generator().manual_seed(5))]
    losses = [float(training_loss(objective, table, part, process).detach()) * D for part in data.split(1000)]
    error = np.std(losses, ddof=1) / math.sqrt(len(losses))
    assert abs(np.mean(losses) - integral_of_g()) < 4 * error
    assert error < 0.05


def test_cross_entropy_is_the_mean_over_masked_tokens() -> None:
    process = AbsorbingProcess(K, D)
    clean, corrupted = torch.tensor([[0, 1, 0], [1, 1, 0]]), torch.tensor([[MASK, 1, MASK], [1, MASK, 0]])
    law = Table()(corrupted).detach().exp()
    right = -(law[0, 0, 0].log() + law[0, 2, 0].log() + law[1, 1, 1].log()) / 3
    torch.testing.assert_close(masked_cross_entropy(law.log(), clean, corrupted, process), right)
    positions = (corrupted == MASK).nonzero()
    torch.testing.assert_close(
        masked_cross_entropy(Table()(corrupted, positions), clean, corrupted, process).detach(), right
    )


def test_callers_tensors_are_not_changed() -> None:
    process = AbsorbingProcess(4, 2, mask_id=3)
    logits, clean, corrupted = torch.zeros(1, 2, 4), torch.tensor([[0, 1]]), torch.tensor([[3, 1]])
    kept = [logits.clone(), clean.clone(), corrupted.clone()]
    masked_nll(logits, clean, corrupted, process)
    training_loss("masked_cross_entropy", Table(), torch.tensor([[0, 1, 1]]), AbsorbingProcess(K, D))
    assert all(torch.equal(a, b) for a, b in zip((logits, clean, corrupted), kept, strict=True))


def test_a_mask_column_has_probability_zero() -> None:
    process = AbsorbingProcess(4, 2, mask_id=3)
    logits = torch.tensor([[[0.0, 0.0, 0.0, 5.0]] * 2])
    loss = masked_nll(logits, torch.tensor([[0, 1]]), torch.tensor([[3, 1]]), process)
    torch.testing.assert_close(loss, torch.tensor([math.log(3)]))
    outside = masked_nll(logits, torch.tensor([[0, 1]]), torch.tensor([[3, 1]]), AbsorbingProcess(3, 2))
    torch.testing.assert_close(outside, torch.tensor([math.log(3)]))


def test_no_noise_no_loss() -> None:
    process, clean = AbsorbingProcess(K, D), torch.tensor([[0, 1, 0]])
    logits, zero = torch.zeros(1, D, K, requires_grad=True), torch.zeros(1, dtype=torch.float64)
    hidden = torch.tensor([[0, MASK, 0]])
    for loss in (t_dce, lambda_dce, score_entropy):
        value = loss(logits, clean, clean, zero, process)
        value.sum().backward()
        assert value.tolist() == [0.0]
        assert loss(logits, clean, hidden, zero, process).tolist() == [math.inf]
    assert any_order(logits, clean, clean, process).tolist() == [0.0]
    assert masked_cross_entropy(logits, clean, clean, process).item() == 0.0
    assert logits.grad is not None and not logits.grad.any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_logits(dtype: torch.dtype) -> None:
    process = AbsorbingProcess(50, 8)
    clean = torch.randint(0, 50, (4, 8))
    corrupted = clean.masked_fill(torch.rand(4, 8) < 0.5, 50)
    logits = (8 * torch.randn(4, 8, 50)).to(dtype).requires_grad_()
    loss = any_order(logits, clean, corrupted, process)
    loss.sum().backward()
    assert logits.grad is not None and bool(logits.grad.isfinite().all())
    torch.testing.assert_close(loss, any_order(logits.detach().float(), clean, corrupted, process), rtol=2e-2, atol=0)


def test_stratified_times() -> None:
    times = stratified_times(512, generator=torch.Generator().manual_seed(0))
    assert (times.sort().values * 512).floor().long().tolist() == list(range(512))
    assert not torch.equal(times, times.sort().values)
    assert abs(float(times.mean()) - 0.5) < 1e-3
    assert stratified_times(0).shape == (0,)


@pytest.mark.parametrize("objective", ["masked_cross_entropy", "t_dce", "lambda_dce", "any_order"])
def test_a_generator_decides_and_global_state_stays(objective: Any) -> None:
    process, data = AbsorbingProcess(K, D), contexts()[0]
    before = torch.get_rng_state()
    first, again, other = (
        float(training_loss(objective, Table(), data, process, generator=torch.Generator().manual_seed(seed)).detach())
        for seed in (7, 7, 8)
    )
    assert first == again != other
    assert torch.equal(torch.get_rng_state(), before)


BAD: list[tuple[Tensor, type[Exception], str]] = [
    (torch.tensor([[1, MASK, 0]]), ValueError, "holds the mask id 2"),
    (torch.tensor([[1, 7, 0]]), ValueError, "holds id 7"),
    (torch.zeros(0, D, dtype=torch.int64), ValueError, "empty batch"),
    (torch.zeros(2, 5, dtype=torch.int64), ValueError, "expected \\(B, 3\\)"),
    (torch.tensor([[0.0, math.nan, 1.0]]), TypeError, "int64"),
    (torch.tensor([[0.0, math.inf, 1.0]]), TypeError, "int64"),
]


@pytest.mark.usefixtures("as_user")
@pytest.mark.parametrize(("data", "error", "message"), BAD)
def test_bad_data(data: Tensor, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        training_loss("masked_cross_entropy", Table(), data, AbsorbingProcess(K, D))


@pytest.mark.usefixtures("as_user")
def test_bad_arguments() -> None:
    process, clean = AbsorbingProcess(K, D), torch.tensor([[0, 1, 0]])
    with pytest.raises(ValueError, match="objective='nll' must be one of 'masked_cross_entropy'"):
        training_loss("nll", Table(), clean, process)  # type: ignore[arg-type]
    for shape in [(1, D, 1), (5, K), (1, 2, K)]:
        with pytest.raises(ValueError, match="logits have shape"):
            masked_nll(torch.zeros(shape), clean, torch.tensor([[0, MASK, 0]]), process)
