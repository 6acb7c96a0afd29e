r"""Geodesics as solutions of an ordinary differential equation, and what shooting makes of them.

A *state* (..., rows, n) holds a point in row 0, its velocity in row 1 and vectors carried along in further rows. With
the connection matrix $A(x,v)$ of a manifold, vectors parallel along the velocity $v$ obey $\dot w=-A(x,v)\,w$, and a
geodesic carries its own velocity: $\dot x=v$, $\dot v=-A(x,v)\,v$.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ._runge_kutta import Rate

__all__ = ["ROUGHLY", "geodesic_rate", "jacobi_rate", "newton_step", "shoot"]

_SHOOTING_TOLERANCE = {torch.float64: (1e-6, 1e-9), torch.float32: (1e-4, 1e-5)}
_NEWTON_STEPS = 40
_WEAKEST = 1e-3  # damping at which the search is given up
ROUGHLY = 1e4  # factor on the tolerance that is good enough for shooting


def geodesic_rate(connection: Callable[[Tensor, Tensor], Tensor]) -> Rate:
    """Right-hand side for states: the point moves with its velocity, all other rows are parallel.

    Args:
        connection: (x, v) -> A (..., n, n).
    """

    def rate(state: Tensor) -> Tensor:
        velocity = state[..., 1, :]
        parallel = -state[..., 1:, :] @ connection(state[..., 0, :], velocity).mT
        return torch.cat([velocity[..., None, :], parallel], dim=-2)

    return rate


def jacobi_rate(connection: Callable[[Tensor, Tensor], Tensor]) -> Rate:
    """Right-hand side of the variational equation, for states [point, velocity, k changes of each] (..., 2 + 2k, n).

    Args:
        connection: (x, v) -> A (..., n, n).
    """

    def acceleration(x: Tensor, v: Tensor) -> Tensor:
        return -(connection(x, v) @ v[..., None])[..., 0]

    def rate(state: Tensor) -> Tensor:
        n = state.shape[-1]
        copies = [row[..., None, :].expand(*row.shape[:-1], n, n) for row in state[..., :2, :].unbind(-2)]
        values, pullback = torch.func.vjp(acceleration, *copies)[:2]
        by_point, by_velocity = pullback(torch.eye(n, dtype=state.dtype, device=state.device).expand_as(values))
        shifts, turns = state[..., 2:, :].chunk(2, dim=-2)
        bends = shifts @ by_point.mT + turns @ by_velocity.mT
        return torch.cat([state[..., 1:2, :], values[..., :1, :], turns, bends], dim=-2)

    return rate


def shoot(
    endpoint: Callable[[Tensor], tuple[Tensor, Tensor]], x: Tensor, y: Tensor, guess: Tensor, basis: Tensor
) -> tuple[Tensor, Tensor]:
    r"""Initial velocity of a geodesic from x to y by damped Newton steps, roughly; NaN where none is found.

    Args:
        endpoint: u (..., n) -> ($\exp_x u$ (..., n), its derivatives along the basis (..., dim, n)), to `ROUGHLY`.
        x: points (..., n).
        y: points (..., n).
        guess: velocities to begin with (..., n).
        basis: of the tangent spaces at x, (..., dim, n).

    Returns:
        Velocity (..., n), with a relative error of about 1e-6 in float64, and the derivatives there.
    """
    velocity, slopes = torch.zeros_like(guess), basis
    step, damping = guess, torch.ones_like(guess[..., 0])
    error = (y - x).norm(dim=-1)
    relative, absolute = _SHOOTING_TOLERANCE[x.dtype]
    tolerance = relative * error + absolute * (1 + y.norm(dim=-1))
    for _ in range(_NEWTON_STEPS):
        if not ((error > tolerance) & (damping > _WEAKEST)).any():
            break
        trial = velocity + damping[..., None] * step
        end, new_slopes = endpoint(trial)
        new_error = (y - end).norm(dim=-1)
        better = new_error < (1 - damping / 4) * error  # a full Newton step would remove all of it
        velocity = torch.where(better[..., None], trial, velocity)
        slopes = torch.where(better[..., None, None], new_slopes, slopes)
        step = torch.where(better[..., None], newton_step(new_slopes, y - end, basis), step)
        damping = torch.where(better, (2 * damping).clamp(max=1.0), damping / 4)
        error = torch.where(better, new_error, error)
    return torch.where((error <= tolerance)[..., None], velocity, torch.nan), slopes


def newton_step(slopes: Tensor, gap: Tensor, basis: Tensor) -> Tensor:
    """Combination of the basis (..., dim, n) whose image under the slopes (..., dim, n) comes closest to the gap."""
    components = torch.linalg.solve_ex(slopes @ slopes.mT, slopes @ gap[..., None]).result
    return (basis.mT @ components)[..., 0]
