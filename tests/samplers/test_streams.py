"""Keyed random numbers: laws, independence of the batch, and precision in the tails."""

from __future__ import annotations

import pytest
import scipy.stats
import torch

from samplers.streams import derive, draw_key, exponential, normal, poisson, uniform

N = 200_000


@pytest.mark.parametrize("key", [0, 1, -1, 2**63 - 1, -(2**63)])
def test_uniform_numbers_are_uniform_and_independent(key: int) -> None:
    rows, columns = torch.arange(400)[:, None], torch.arange(500)
    u = uniform(key, rows, columns)
    assert float(u.min()) > 0.0 and float(u.max()) < 1.0
    assert scipy.stats.kstest(u.flatten().numpy(), "uniform").pvalue > 1e-4
    for shifted in (u[1:] * u[:-1], u[:, 1:] * u[:, :-1], u[1:, 1:] * u[:-1, :-1]):
        error = (float(shifted.mean()) - 0.25) / (7 / 144 / shifted.numel()) ** 0.5
        assert abs(error) < 4.5


def test_every_bit_of_a_word_is_fair() -> None:
    words = (uniform(3, torch.arange(N)) * 2**52).long()
    ones = torch.stack([(words >> bit & 1).double().mean() for bit in range(52)])
    assert float((ones - 0.5).abs().max()) < 4.5 * 0.5 / N**0.5


def test_a_draw_depends_on_its_own_coordinates_alone() -> None:
    whole = uniform(7, torch.arange(64)[:, None], torch.arange(10))
    assert torch.equal(whole[5:6, 3:4], uniform(7, torch.tensor([[5]]), torch.tensor([3])))
    assert torch.equal(whole[5, 3], uniform(7, 5, 3))
    assert not torch.equal(whole, uniform(8, torch.arange(64)[:, None], torch.arange(10)))
    assert not torch.equal(whole[:10, :10], whole[:10, :10].T)


def test_exponentials_have_their_law_and_their_small_values() -> None:
    e = exponential(11, torch.arange(N))
    assert scipy.stats.kstest(e.numpy(), "expon").pvalue > 1e-4
    assert float(e.min()) < 20 / N


@pytest.mark.parametrize("mean", [0.0, 1e-3, 0.5, 3.0, 40.0, 7000.0, 1e6])
def test_poisson_is_the_inverse_distribution_function(mean: float) -> None:
    counts = torch.arange(2000)
    drawn = poisson(5, torch.tensor(mean), counts)
    expected = scipy.stats.poisson.ppf(uniform(5, counts).numpy(), mean)
    assert int((drawn.numpy() != expected).sum()) <= 1  # one rounding of the distribution function at most


@pytest.mark.parametrize("mean", [-1.0, float("inf"), float("nan")])
def test_poisson_refuses_senseless_means(mean: float) -> None:
    with pytest.raises(ValueError, match="mean must be finite"):
        poisson(5, torch.tensor(mean), 1)


def test_keys_come_from_the_generator_or_from_torchs_default() -> None:
    assert draw_key(torch.Generator().manual_seed(1)) == draw_key(torch.Generator().manual_seed(1))
    state = torch.get_rng_state()
    draw_key(torch.Generator().manual_seed(1))
    assert torch.equal(state, torch.get_rng_state())
    torch.manual_seed(3)
    first = draw_key(None)
    assert first != draw_key(None)
    torch.manual_seed(3)
    assert first == draw_key(None)


def test_derived_keys_differ() -> None:
    keys = {derive(key, purpose) for key in range(30) for purpose in range(30)}
    assert len(keys) == 900


@pytest.mark.gpu
def test_numbers_on_a_gpu_are_the_same() -> None:
    counters = torch.arange(1000)
    assert torch.equal(uniform(1, counters), uniform(1, counters.cuda()).cpu())


def test_normal_numbers_are_normal_and_independent() -> None:
    rows, steps = torch.arange(400)[:, None], torch.arange(100)
    x = normal(5, 5, rows, steps)
    assert x.shape == (400, 100, 5) and x.dtype == torch.float64
    assert scipy.stats.kstest(x.flatten().numpy(), "norm").pvalue > 1e-4
    for a in range(5):
        for b in range(a):
            for power in (1, 2):  # partners of a Box-Muller pair share their radius: squares must not correlate
                left, right = x[..., a] ** power, x[..., b] ** power
                correlation = float(torch.corrcoef(torch.stack([left.flatten(), right.flatten()]))[0, 1])
                assert abs(correlation) < 4.5 / left.numel() ** 0.5


def test_a_normal_number_depends_on_its_own_coordinates_alone() -> None:
    whole = normal(5, 4, torch.arange(8)[:, None], torch.arange(6))
    assert torch.equal(whole[3, 2, :3], normal(5, 3, 3, torch.tensor(2)))
    assert normal(5, 0, torch.arange(8)).shape == (8, 0)
