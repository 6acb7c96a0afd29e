"""Space-times in coordinates: Schwarzschild's orbits, curvature and horizon, and frames of Lorentzian metrics."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from manifolds import ChartManifold, Schwarzschild


def rain(q: Tensor) -> Tensor:
    """Schwarzschild, M = 1, in the coordinates of freely falling rain (Painleve and Gullstrand): regular at r = 2."""
    r, theta = q[..., 1], q[..., 2]
    one, zero, fall = torch.ones_like(r), torch.zeros_like(r), (2 / r).sqrt()
    rows = [
        [fall**2 - 1, fall, zero, zero],
        [fall, one, zero, zero],
        [zero, zero, r**2, zero],
        [zero, zero, zero, (r * theta.sin()) ** 2],
    ]
    return torch.stack([torch.stack(row, dim=-1) for row in rows], dim=-2)


def tensor(*rows: object) -> Tensor:
    return torch.tensor(rows if len(rows) > 1 else rows[0], dtype=torch.float64)


def test_kretschmann_and_vacuum() -> None:
    space, x = Schwarzschild(1.3), tensor([0.0, 4.0, 1.0, 0.3], [1.0, 9.0, 2.0, 0.0])
    torch.testing.assert_close(space.kretschmann(x), 48 * 1.3**2 / x[:, 1] ** 6, rtol=1e-10, atol=0)
    ricci = torch.einsum("bijil->bjl", space.riemann(x))
    torch.testing.assert_close(ricci, torch.zeros_like(ricci), rtol=0, atol=1e-13)


def test_closed_christoffel_is_that_of_the_metric() -> None:
    space, x = Schwarzschild(1.3), tensor([0.0, 4.0, 1.0, 0.3], [1.0, 9.0, 2.0, 0.0])
    differentiated = ChartManifold(space.metric, 4, signature=(3, 1)).christoffel(x)
    torch.testing.assert_close(space.christoffel(x), differentiated, rtol=1e-12, atol=1e-12)


def test_orbit_ends_where_it_should(hamiltonian_oracles: dict[str, list[float]]) -> None:
    space = Schwarzschild(1.0)
    energy, angular = hamiltonian_oracles["schwarzschild.(E,L)(p=10,e=0.2)"]
    x = tensor([0.0, 10 / 1.2, math.pi / 2, 0.0])
    u = space.raise_(x, tensor([-energy, 0.0, 0.0, angular]))
    assert space.inner(x, u).item() == pytest.approx(-1, abs=1e-12)
    end, velocity = space.expmap_transp(x, 200 * u, u)
    t, r, phi, p_r = hamiltonian_oracles["schwarzschild.state(p=10,e=.2,periastron start,tau=200):t,r,phi,p_r"]
    torch.testing.assert_close(end, tensor([t, r, math.pi / 2, phi]), rtol=0, atol=1e-8)
    momentum = space.lower(end, velocity)
    torch.testing.assert_close(momentum, tensor([-energy, p_r, 0.0, angular]), rtol=0, atol=1e-9)


def test_circular_orbit(hamiltonian_oracles: dict[str, list[float]]) -> None:
    space = Schwarzschild(1.0)
    omega, energy, angular, _ = hamiltonian_oracles["schwarzschild.circular(r=10M):Omega,E,L,kappa"]
    x = tensor([0.0, 10.0, math.pi / 2, 0.0])
    end = space.expmap(x, 50 * space.raise_(x, tensor([-energy, 0.0, 0.0, angular])))
    assert end[1].item() == pytest.approx(10, abs=1e-9)
    assert (end[3] / end[0]).item() == pytest.approx(omega, abs=1e-11)


def test_row_that_falls_in_is_nan_and_disturbs_no_other() -> None:
    space = Schwarzschild(1.0)
    x = tensor([0.0, 10.0, 1.5, 0.0], [0.0, 3.0, 1.5, 0.0], [0.0, 1.0, 1.5, 0.0])
    u = tensor([20.0, 0.1, 0.0, 0.5], [5.0, -3.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0])
    end = space.expmap(x, u)
    assert end.isnan().all(-1).tolist() == [False, True, True]
    torch.testing.assert_close(end[0], space.expmap(x[0], u[0]), rtol=1e-14, atol=1e-14)


def test_causal_structure() -> None:
    space, x = Schwarzschild(1.0), tensor([0.0, 4.0, 1.0, 0.0])
    tetrad = space.tetrad(x)
    torch.testing.assert_close(tetrad.diagonal(), tensor([2**0.5, 0.5**0.5, 0.25, 0.25 / math.sin(1)]))
    null = tetrad[:, 0] + tetrad[:, 1]
    assert space.causal_type(x, torch.stack([tetrad[:, 0], null, tetrad[:, 2]])).tolist() == [-1, 0, 1]
    shell = space.project_shell(2 * tetrad[:, 0] + tetrad[:, 3], 1.5, x=x)
    assert space.inner(x, shell).item() == pytest.approx(-(1.5**2))
    assert space.project_shell(tetrad[:, 2], 1.0, x=x).isnan().all()


@pytest.mark.parametrize("radius", [1.2, 2.0, 6.0])
def test_frame_of_rain_coordinates_on_both_sides_of_the_horizon(radius: float) -> None:
    space, x = ChartManifold(rain, 4, signature=(3, 1)), tensor([0.0, radius, 1.0, 0.0])
    frame = space.frame(x)
    torch.testing.assert_close(frame.mT @ space.metric(x) @ frame, torch.diag(space.frame_signs(x)))
    torch.testing.assert_close(frame[:, 0], tensor([1.0, -((2 / radius) ** 0.5), 0.0, 0.0]))  # falling with the rain


def test_frame_from_the_metric_is_the_static_tetrad_and_turns_inside() -> None:
    space = Schwarzschild(1.0)
    chart = ChartManifold(space.metric, 4, signature=(3, 1))
    outside, inside = tensor([0.0, 4.0, 1.0, 0.0]), tensor([0.0, 1.0, 1.0, 0.0])
    torch.testing.assert_close(chart.frame(outside), space.frame(outside))
    frame = chart.frame(inside)  # there r is the time
    torch.testing.assert_close(frame.mT @ chart.metric(inside) @ frame, torch.diag(chart.frame_signs(inside)))
    assert frame[:, 0].nonzero().tolist() == [[1]]


def test_null_coordinates_have_no_frame() -> None:
    space = ChartManifold(lambda q: tensor([0.0, -1.0], [-1.0, 0.0]).expand(*q.shape, 2), 2, signature=(1, 1))
    assert space.check_point_on_manifold(tensor([0.0, 0.0]))
    assert space.frame(tensor([0.0, 0.0])).isnan().any()
