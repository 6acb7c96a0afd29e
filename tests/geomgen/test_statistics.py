"""Intervals and slopes against scipy."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

from geomgen.statistics import mean_interval, paired_interval, slope, t_quantile


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 5, 9, 30, 99, 100, 101, 250, 10_000])
@pytest.mark.parametrize("probability", [0.5, 0.9, 0.975, 0.9995])
def test_t_quantile_is_students(degrees: int, probability: float) -> None:
    expected = stats.t.ppf(probability, degrees)
    assert t_quantile(degrees, probability) == pytest.approx(expected, rel=1e-8, abs=1e-12)


@pytest.mark.parametrize("n", [2, 3, 7, 200])
def test_mean_interval_is_scipys(n: int) -> None:
    values = torch.randn(n, generator=torch.Generator().manual_seed(n), dtype=torch.float64) + 3
    low, high = stats.t.interval(0.95, n - 1, values.mean().item(), stats.sem(values.numpy()))
    mean, half = mean_interval(values)
    assert mean - half == pytest.approx(low, rel=1e-8)
    assert mean + half == pytest.approx(high, rel=1e-8)


def test_intervals_cover_95_percent() -> None:
    values = torch.randn(1000, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    intervals = [mean_interval(row) for row in values]
    missed = sum(abs(mean) > half for mean, half in intervals)
    assert abs(missed - 50) < 4 * math.sqrt(1000 * 0.05 * 0.95)
    normal = sum(abs(mean) > half * 1.96 / 2.776 for mean, half in intervals)  # z instead of t: must be seen
    assert abs(normal - 50) > 4 * math.sqrt(1000 * 0.05 * 0.95)


def test_one_measurement_tells_no_spread() -> None:
    assert mean_interval([2.0]) == (2.0, math.inf)


def test_paired_interval_removes_what_pairs_share() -> None:
    shared = torch.linspace(0, 100, 20, dtype=torch.float64)
    noise = torch.randn(20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    mean, half = paired_interval(shared + 1 + 0.1 * noise, shared)
    reference = stats.ttest_rel(shared + 1 + 0.1 * noise, shared).confidence_interval(0.95)
    assert (mean - half, mean + half) == pytest.approx((reference.low, reference.high), rel=1e-8)
    assert half < 0.1 < mean_interval(shared).half_width


def test_slope_uses_the_last_octaves_only() -> None:
    x = torch.tensor([64.0, 1, 2, 4, 8, 16, 32], dtype=torch.float64)
    y = torch.where(x < 8, torch.full_like(x, 5.0), x**-2)
    value, error = slope(x, y)
    assert value == pytest.approx(-2, abs=1e-12)
    assert error == pytest.approx(0, abs=1e-7)
    assert slope(x, y, last_octaves=6).value < -2.5  # the jump at 8 is inside


def test_slope_and_its_error_are_scipys() -> None:
    x = torch.arange(8, 65, dtype=torch.float64)
    y = 3 / x * (1 + 0.2 * torch.rand(len(x), generator=torch.Generator().manual_seed(2), dtype=torch.float64))
    reference = stats.linregress(x.log().numpy(), y.log().numpy())
    value, error = slope(x, y)
    assert value == pytest.approx(reference.slope, rel=1e-10)
    assert error == pytest.approx(reference.stderr, rel=1e-10)


def test_slope_of_two_points_has_no_error() -> None:
    value, error = slope([1.0, 2.0], [1.0, 8.0])
    assert value == pytest.approx(3)
    assert math.isnan(error)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: mean_interval([]), "values is empty"),
        (lambda: mean_interval([1.0, math.nan]), "not finite"),
        (lambda: paired_interval([1.0], [1.0, 2.0]), "equal lengths"),
        (lambda: slope([1.0, 2.0], [1.0]), "equal lengths"),
        (lambda: slope([1.0, 2.0], [1.0, 0.0]), "positive"),
        (lambda: slope([2.0, 2.0], [1.0, 1.0]), "two distinct"),
        (lambda: slope([], []), "two distinct"),
        (lambda: slope([1.0, 2.0], [1.0, 1.0], last_octaves=0), "last_octaves=0"),
        (lambda: t_quantile(0), "degrees=0"),
        (lambda: t_quantile(3, 1.0), "probability=1.0"),
    ],
)
def test_bad_input_is_named(call, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        call()
