"""`integrate`: a system, an integrator, initial states; out comes a trajectory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from .._arguments import whole_number
from ._noise import NoiseSource, noise_source
from ._scalars import Number
from .adjoint import Run, integrate_reversibly
from .base import Integrator, State
from .brownian_path import BrownianPath
from .catalogue import alternatives
from .compiled import compiled_steps
from .equation import Equation, differentiable_tensors
from .errors import NonFiniteError
from .plan import Plan, plan_steps

__all__ = ["Trajectory", "integrate"]


class Trajectory(NamedTuple):
    """What a run returns.

    Attributes:
        times: (T,) float64, or (T, B) where each row has its own.
        states: (T, B, n).
    """

    times: Tensor
    states: Tensor


def integrate(
    system: Equation,
    integrator: Integrator | Callable[[], Integrator],
    z0: Float[Tensor, "B n"],
    *,
    step_size: Number | None = None,
    num_steps: int | None = None,
    end_time: Number | None = None,
    t0: Number = 0.0,
    save_every: int = 1,
    save_at: Sequence[int | float] | Tensor | None = None,
    generator: torch.Generator | None = None,
    noise: Tensor | BrownianPath | None = None,
    first: int = 0,
    first_step: int = 0,
    adjoint: Literal["backprop", "reversible"] = "backprop",
    compile_chunk: int = 0,
    progress: bool = False,
) -> Trajectory:
    r"""Integrate a system from initial states.

    Steps are fixed. Say how many by two of ``step_size``, ``num_steps`` and ``end_time`` (the step is shortened so that
    the last one ends at ``end_time``), or by ``step_size`` and the output times ``save_at``. In grad mode the result
    can be differentiated if the states or parameters of the system require it; use ``torch.no_grad()`` to sample.

    Random numbers are keyed: those of row r at step k depend on the generator's key, ``first + r`` and
    ``first_step + k`` alone. So a run continues bit for bit from its last state by ``t0`` and ``first_step``, and
    one row can be reproduced by ``first``.

    Args:
        system: a `HamiltonianSystem` or an `SDE`.
        integrator: how, an `Integrator` (a class or function that makes one without arguments will do).
        z0: initial states (B, n).
        step_size: h > 0, a number or one for each row (B,).
        num_steps: how many steps.
        end_time: where to end, a number or one for each row (B,).
        t0: time of the initial states, a number or (B,).
        save_every: save the state after every so many steps; the initial and the last state are always saved.
        save_at: output times instead, none before ``t0``, not decreasing; steps end on each of them.
        generator: source of the key; torch's default generator if None. It is left alone where no noise is needed.
        noise: standard normal numbers (num_steps, B, \*noise_shape) instead, or a `BrownianPath`.
        first: number of the first row.
        first_step: number of the first step.
        adjoint: how gradients are computed: "backprop" keeps every step, "reversible" keeps none and runs a reversible
            explicit scheme backwards.
        compile_chunk: steps per call of a function compiled by ``torch.compile``; 0 runs eagerly.
        progress: show a progress bar.

    Returns:
        Trajectory: times and states, the initial ones included (with ``save_at``, those times alone).

    Raises:
        TypeError: an argument is of the wrong kind.
        ValueError: an argument is out of range, states are not on the space of the system, or the integrator makes no
            sense for it; the message names others that do.
        NonFiniteError: a state is infinite or NaN; with time and row.
        ConvergenceError: an implicit step was not solved; with iterations and residual.
    """
    method = _integrator(integrator)
    refuse_unsuitable(system, method)
    plan = plan_steps(
        step_size=step_size,
        num_steps=num_steps,
        end_time=end_time,
        t0=t0,
        save_every=save_every,
        save_at=save_at,
    )
    system.bind(z0)
    _check_initial(system, z0)
    plan = plan.to(z0)
    source = noise_source(
        method.noise_shape(system),
        z0,
        plan,
        generator=generator,
        given=noise,
        first=whole_number("first", first, 0),
        first_step=whole_number("first_step", first_step, 0),
    )
    chunk = whole_number("compile_chunk", compile_chunk, 0)
    steps = compiled_steps(eager_steps, chunk) if chunk else eager_steps

    def forward(z: Tensor) -> tuple[list[Tensor], State]:
        return _run(system, method, z, plan, source, steps, chunk, progress=progress)

    if adjoint == "reversible":
        return Trajectory(plan.times, integrate_reversibly(Run(system, method, plan, source, forward), z0))
    if adjoint != "backprop":
        raise ValueError(f"adjoint={adjoint!r} must be 'backprop' or 'reversible'")
    with torch.set_grad_enabled(_needs_gradient(system, z0, plan)):
        states, _ = forward(z0)
    return Trajectory(plan.times, torch.stack(states))


def _run(
    system: Equation,
    integrator: Integrator,
    z0: Tensor,
    plan: Plan,
    source: NoiseSource,
    steps: Callable[..., tuple[State, list[Tensor]]],
    length: int,
    *,
    progress: bool,
) -> tuple[list[Tensor], State]:
    """The saved states and the last one, chunk by chunk.

    Args:
        system: what is integrated.
        integrator: how.
        z0: initial states (B, n).
        plan: the steps.
        source: of the noise.
        steps: takes the steps of a chunk, as `eager_steps` does.
        length: steps per chunk, 0 for as many as the noise is drawn for at once.
        progress: show a bar.
    """
    from tqdm import tqdm

    state = integrator.init(system, z0, plan.step(0)[0] if plan.num_steps else 0.0)
    kept, wanted = {0: z0}, set(plan.saved)
    with tqdm(total=plan.num_steps, desc=type(integrator).__name__, disable=not progress, leave=False) as bar:
        for begin, end in source.chunks(length):
            sizes = [plan.step(k) for k in range(begin, end)]
            before, noise = state, source.draw(begin, end)
            state, states = steps(system, integrator, before, sizes, noise)
            if not bool(state.z.isfinite().all()):
                _raise_non_finite(system, integrator, before, sizes, noise, begin)
            kept.update({k + 1: z for k, z in zip(range(begin, end), states, strict=True) if k + 1 in wanted})
            bar.update(end - begin)
    return [kept[k] for k in plan.saved], state


def eager_steps(
    system: Equation, integrator: Integrator, state: State, steps: Sequence[tuple[Number, Number]], noise: Tensor | None
) -> tuple[State, list[Tensor]]:
    """Take steps one by one.

    Args:
        system: what is integrated.
        integrator: how.
        state: where to start.
        steps: time and size of each.
        noise: (steps, B, *noise_shape), or None.

    Returns:
        The last state, and the states z after each step.
    """
    states = []
    draws = [None] * len(steps) if noise is None else noise.unbind(0)
    for (t, h), draw in zip(steps, draws, strict=True):
        state = integrator.step(system, state._replace(t=t), h, draw)
        states.append(state.z)
    return state, states


def refuse_unsuitable(system: Equation, integrator: Integrator) -> None:
    """Raise unless the integrator makes sense for the system.

    Raises:
        ValueError: names the reason and the integrators that do.
    """
    reason = integrator.refusal(system)
    if reason is None:
        return
    others = alternatives(system)
    advice = f"; integrators for this system: {', '.join(others)}" if others else ""
    raise ValueError(f"{type(integrator).__name__} does not fit this system: {reason}{advice}")


def _integrator(integrator: object) -> Integrator:
    made = integrator() if callable(integrator) and not isinstance(integrator, Integrator) else integrator
    if not isinstance(made, Integrator):
        raise TypeError(f"integrator={integrator!r} must be an Integrator, such as Verlet()")
    return made


def _check_initial(system: Equation, z0: Tensor) -> None:
    finite = z0.isfinite().all(-1)
    if not bool(finite.all()):
        row = int((~finite).nonzero()[0])
        raise ValueError(f"z0 is not finite in row {row}: {z0[row].tolist()}")
    if system.space is not None:
        tolerance = 1e-5 if z0.dtype == torch.float64 else 1e-3
        ok, reason = system.space.check_point_on_manifold(z0.detach(), explain=True, atol=tolerance, rtol=tolerance)
        if not ok:
            raise ValueError(f"z0 is not on {system.space!r}: {reason}; apply space.projx to it")


def _needs_gradient(system: Equation, z0: Tensor, plan: Plan) -> bool:
    """Whether the result can depend on something that requires a gradient."""
    if not torch.is_grad_enabled():
        return False
    if z0.requires_grad or differentiable_tensors(system):
        return True
    time = plan.step(0)[0] if plan.num_steps else 0.0
    return system.is_differentiable(z0[:1], time[:1] if isinstance(time, Tensor) and time.dim() else time)


def _raise_non_finite(
    system: Equation,
    integrator: Integrator,
    state: State,
    steps: Sequence[tuple[Number, Number]],
    noise: Tensor | None,
    begin: int,
) -> None:
    """Find the step and the row at which the state was lost, by going through the chunk again."""
    with torch.no_grad():
        _, states = eager_steps(system, integrator, state, steps, noise)
    for k, ((t, h), z) in enumerate(zip(steps, states, strict=True)):
        bad = ~z.isfinite().all(-1)
        if bool(bad.any()):
            row = int(bad.nonzero()[0])
            time = t + h
            at: Any = time[row] if isinstance(time, Tensor) and time.dim() else time
            size: Any = h[row] if isinstance(h, Tensor) and h.dim() else h
            raise NonFiniteError(
                f"the state of row {row} is not finite at time {float(at):.6g} (step {begin + k + 1}, {int(bad.sum())} "
                f"such rows): take a smaller step than {float(size):.3g}, or look for a singular force there",
                time=float(at),
                row=row,
                step=begin + k + 1,
            )
