r"""Put an integrator to the test: order of convergence, reversibility, symplecticity.

Strong and weak errors use nested noise: the increments of a coarse step are sums of those of the finest one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .. import streams
from .base import Integrator
from .equation import Equation
from .gradient import Time
from .integrate import integrate

__all__ = [
    "Convergence",
    "assert_integrator_order",
    "assert_reversible",
    "assert_symplectic",
    "measure_order",
    "nested_noise",
    "slope",
]

_FITTED = 3  # halvings that the slope is fitted to, counted from the finest
_CLEAR = 5.0  # standard errors that a sampled error has to exceed


@dataclass(frozen=True)
class Convergence:
    """Errors at several numbers of steps.

    Attributes:
        steps: how many steps, increasing.
        errors: the error with each.
        standard_errors: of these, zero where nothing was sampled.
        order: least-squares slope of log error against log step, over the last three halvings.
    """

    steps: Sequence[int]
    errors: Sequence[float]
    standard_errors: Sequence[float]
    order: float


def measure_order(
    integrator: Integrator,
    system: Equation,
    z0: Tensor,
    *,
    end_time: int | float,
    steps: Sequence[int],
    kind: str = "deterministic",
    reference: Tensor | Callable[[Tensor], Tensor] | int | float | None = None,
    observable: Callable[[Tensor], Tensor] | None = None,
    t0: Time = 0.0,
    seed: int = 0,
) -> Convergence:
    r"""Errors at ``end_time`` for several numbers of steps.

    * "deterministic": root mean square over rows of $|z_N-z|$, z the reference (B, n).
    * "strong": the same for given noise. The reference is a function of the increments
      $\Delta W$ (N, B, \*noise_shape) of the finest grid, or None: the method itself with 8 times the finest steps.
    * "weak": $|\overline{f(z_N)}-E f|$ for an observable f: (B, n) -> (B,) and its exact expectation, a number.

    Args:
        integrator: the method.
        system: the equation.
        z0: initial states (B, n); with noise, B paths.
        end_time: where the errors are measured.
        steps: numbers of steps, each dividing the last.
        kind: which error.
        reference: the right value; None for the method itself with 8 times the finest steps.
        observable: f, for the weak error.
        t0: start time.
        seed: of the noise.

    Raises:
        ValueError: unknown kind, steps that do not divide the last, or a weak error without observable and value.
    """
    if kind not in ("deterministic", "strong", "weak"):
        raise ValueError(f"kind={kind!r} must be 'deterministic', 'strong' or 'weak'")
    steps = sorted(steps)
    if any(steps[-1] % count for count in steps):
        raise ValueError(f"steps={list(steps)}: each must divide the last, so that the noise is nested")
    if kind == "weak" and (observable is None or not isinstance(reference, int | float)):
        raise ValueError("a weak error needs an observable and its exact expectation as reference")
    refined = 8 if reference is None else 1
    with torch.no_grad():
        system.bind(z0)
        fine = _finest_noise(integrator, system, z0, steps[-1] * refined, seed)

        def end(count: int) -> Tensor:
            noise = None if fine is None else nested_noise(fine, count)
            run = integrate(
                system, integrator, z0, num_steps=count, end_time=end_time, t0=t0, save_every=count, noise=noise
            )
            return run.states[-1]

        if reference is None:
            reference = end(steps[-1] * refined)
        elif callable(reference):
            assert fine is not None
            reference = reference(fine * math.sqrt((end_time - t0) / len(fine)))
        pairs = [_error(end(count), reference, observable if kind == "weak" else None) for count in steps]
        if fine is None:  # rows are problems, not samples
            pairs = [(error, 0.0) for error, _ in pairs]
    errors, standard_errors = zip(*pairs, strict=True)
    return Convergence(steps, errors, standard_errors, slope(steps, errors))


def assert_integrator_order(
    integrator: Integrator, system: Equation, z0: Tensor, *, order: int | float, tolerance: float = 0.15, **problem: Any
) -> Convergence:
    """Raise AssertionError unless a method converges at an order.

    Args:
        integrator: the method.
        system: the equation.
        z0: initial states (B, n).
        order: what it has to be.
        tolerance: by how much the slope may differ.
        problem: the other arguments of `measure_order`.
    """
    found = measure_order(integrator, system, z0, **problem)
    table = ", ".join(f"{n}: {error:.3g}" for n, error in zip(found.steps, found.errors, strict=True))
    fitted = list(zip(found.errors, found.standard_errors, strict=True))[-_FITTED - 1 :]
    if any(error < _CLEAR * standard_error for error, standard_error in fitted):
        raise AssertionError(
            f"{integrator}: errors {table} are not {_CLEAR:g} standard errors off zero: take more rows"
        )
    if not abs(found.order - order) <= tolerance:
        raise AssertionError(f"{integrator}: order {found.order:.3f}, not {order} +- {tolerance}; errors {table}")
    return found


def assert_reversible(
    integrator: Integrator,
    system: Equation,
    z0: Tensor,
    h: int | float,
    *,
    num_steps: int = 10,
    atol: float = 1e-12,
    seed: int = 0,
) -> None:
    """Raise AssertionError unless steps by -h with the same noise, in reverse, undo steps by h.

    Args:
        integrator: the method.
        system: the equation.
        z0: initial states (B, n).
        h: step.
        num_steps: how many steps forth and back.
        atol: allowed difference, relative to 1 + |z|.
        seed: of the noise.
    """
    with torch.no_grad():
        state = integrator.init(system, z0)
        noise = _finest_noise(integrator, system, z0, num_steps, seed)
        draws = [None] * num_steps if noise is None else list(noise)
        for draw in draws:
            state = integrator.step(system, state, h, draw)
        moved = (state.z - z0).abs().max()
        for draw in reversed(draws):
            state = integrator.step(system, state, -h, draw)
        defect = float(((state.z - z0).abs() / (1 + z0.abs())).max())
    if not defect <= atol:
        raise AssertionError(f"{integrator}: {num_steps} steps forth and back miss by {defect:.2e} > {atol:g}")
    if not float(moved) > 1e3 * atol:
        raise AssertionError(f"{integrator}: the steps moved nothing, so this says nothing")


def assert_symplectic(
    integrator: Integrator, system: Equation, z0: Tensor, h: int | float, *, atol: float = 1e-10, seed: int = 0
) -> None:
    r"""Raise AssertionError unless the Jacobian M of a step obeys $M J(z) M^{\mathsf T}=J(z')$: a Poisson map.

    For canonical J that is $M^{\mathsf T}JM=J$, a symplectic map. On a constrained manifold J is the Dirac bracket.

    Args:
        integrator: the method.
        system: a `HamiltonianSystem` with known structure, or a `Separable` one.
        z0: states (B, n).
        h: step.
        atol: allowed defect, relative to the largest entry of J.
        seed: of the noise.
    """
    with torch.no_grad():
        system.bind(z0)
        noise = _finest_noise(integrator, system, z0, 1, seed)
    defects = []
    for row in range(len(z0)):
        draw = None if noise is None else noise[0, row : row + 1]

        def after(z: Tensor, draw: Tensor | None = draw) -> Tensor:
            return integrator.step(system, integrator.init(system, z), h, draw).z

        z = z0[row : row + 1]
        jacobian = torch.autograd.functional.jacobian(after, z)[0, :, 0]
        with torch.no_grad():
            before, later = _bivector(system, z), _bivector(system, after(z))
        defects.append((jacobian @ before @ jacobian.mT - later).abs().max() / later.abs().max())
    defect = float(torch.stack(defects).max())
    if not defect <= atol:
        raise AssertionError(f"{integrator}: a step is no Poisson map, defect {defect:.2e} > {atol:g}")


def nested_noise(fine: Tensor, count: int) -> Tensor:
    r"""Standard normal numbers of `count` coarse steps: sums of fine ones, over the root of how many.

    Args:
        fine: (N, B, \*shape), N a multiple of `count`.
        count: number of coarse steps.
    """
    ratio = len(fine) // count
    return fine.unflatten(0, (count, ratio)).sum(1) / math.sqrt(ratio)


def slope(steps: Sequence[int], errors: Sequence[float]) -> float:
    """Least-squares slope of log error against log step, over the last three halvings."""
    x = -torch.tensor(steps[-_FITTED - 1 :], dtype=torch.float64).log()
    y = torch.tensor(errors[-_FITTED - 1 :], dtype=torch.float64).log()
    x = x - x.mean()
    return float((x * y).sum() / (x * x).sum())


def _finest_noise(integrator: Integrator, system: Equation, z0: Tensor, count: int, seed: int) -> Tensor | None:
    shape = integrator.noise_shape(system)
    if not math.prod(shape):
        return None
    rows = torch.arange(len(z0))
    numbers = streams.normal(seed, math.prod(shape), torch.arange(count)[:, None], rows)
    return numbers.to(z0).unflatten(-1, shape)


def _error(z: Tensor, reference: object, observable: Callable[[Tensor], Tensor] | None) -> tuple[float, float]:
    """An error and its standard error."""
    if observable is not None:
        values = observable(z)
        return abs(float(values.mean()) - float(reference)), float(values.std()) / math.sqrt(len(values))  # type: ignore[arg-type]
    square = (z - reference).square().sum(-1)  # type: ignore[operator]
    root = float(square.mean().sqrt())
    spread = float(square.std()) / math.sqrt(len(square)) if len(square) > 1 else 0.0
    return root, spread / (2 * root) if root else 0.0


def _bivector(system: Equation, z: Tensor) -> Tensor:
    """J(z) of one state (1, n), column by column."""
    n = z.shape[-1]
    basis = torch.eye(n, dtype=z.dtype, device=z.device)
    columns: Tensor = system.sharp(z.expand(n, n), basis)  # type: ignore[operator]
    return columns.mT
