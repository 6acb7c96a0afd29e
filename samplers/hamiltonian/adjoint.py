r"""Gradients of a run in constant memory: a reversible scheme is run backwards beside its adjoint.

Nothing is kept but the states that were asked for. On the way back a step by -h with the same noise restores the state
before each step, and that one step is differentiated. The gradients are those of backpropagation, to rounding. Friction
makes the way back unstable (errors grow as $e^{\gamma T}$); saved states replace restored ones on the way, so save
every $1/\gamma$ or so.

Source: Gomez, Ren, Urtasun & Grosse, "The reversible residual network", NeurIPS 2017; Kidger, Foster, Li & Lyons,
"Efficient and accurate gradients for neural SDEs", NeurIPS 2021.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ._noise import NoiseSource
from .base import Integrator, State
from .equation import Equation, differentiable_tensors
from .plan import Plan

__all__ = ["Run", "integrate_reversibly"]


@dataclass(frozen=True)
class Run:
    """A run that can be repeated step by step.

    Attributes:
        system: what is integrated.
        integrator: how.
        plan: the steps.
        source: of the noise.
        forward: initial states -> saved states and the last state, without gradients.
    """

    system: Equation
    integrator: Integrator
    plan: Plan
    source: NoiseSource
    forward: Callable[[Tensor], tuple[list[Tensor], State]]


def integrate_reversibly(run: Run, z0: Tensor) -> Tensor:
    """Saved states (T, B, n), differentiable by the initial states and by the tensors of the system.

    Args:
        run: what to do.
        z0: initial states (B, n).

    Raises:
        ValueError: the integrator is not explicit and reversible.
    """
    if not (run.integrator.reversible and run.integrator.explicit):
        raise ValueError(
            f"adjoint='reversible' needs an explicit reversible method, which {type(run.integrator).__name__} is not: "
            "use Verlet, a LangevinSplitting or another, or adjoint='backprop'"
        )
    states: Tensor = _Reversible.apply(run, z0, *differentiable_tensors(run.system))
    return states


class _Reversible(torch.autograd.Function):
    """The run, with its adjoint."""

    @staticmethod
    def forward(ctx: Any, run: Run, z0: Tensor, *parameters: Tensor) -> Tensor:
        saved, last = run.forward(z0.detach())
        states = torch.stack(saved)
        ctx.run, ctx.memory = run, last.memory
        ctx.save_for_backward(states, last.z, *parameters)
        return states

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        states, last, *parameters = ctx.saved_tensors
        sweep = _Sweep(ctx.run, states, gradients[0], State(last, 0.0, ctx.memory), parameters)
        return (None, *sweep.to_start())


class _Sweep:
    """The way back: the state, its cotangent, and what has been collected for the parameters."""

    def __init__(self, run: Run, states: Tensor, gradients: Tensor, last: State, parameters: Sequence[Tensor]) -> None:
        self.run, self.state, self.parameters = run, last, list(parameters)
        self.saved: dict[int, tuple[Tensor, Tensor]] = {}
        for k, z, gradient in zip(run.plan.saved, states, gradients, strict=True):
            earlier = self.saved[k][1] if k in self.saved else 0.0  # output times may coincide
            self.saved[k] = (z, gradient + earlier)
        self.cotangent = torch.zeros_like(last.z)
        self.memory_cotangents = [torch.zeros_like(m) for m in _tensors(last.memory)]
        self.collected = [torch.zeros_like(p) for p in self.parameters]

    def to_start(self) -> list[Tensor]:
        """Gradients by the initial states and the parameters."""
        for begin, end in reversed(list(self.run.source.chunks())):
            noise = self.run.source.draw(begin, end)
            for k in reversed(range(begin, end)):
                self._undo(k, None if noise is None else noise[k - begin])
        self._meet(0)
        return self._through_init()

    def _meet(self, k: int) -> None:
        """Add the gradient of a state that was saved, and put that state in the place of the restored one."""
        if k in self.saved:
            z, gradient = self.saved[k]
            self.state = self.state._replace(z=z)
            self.cotangent = self.cotangent + gradient

    def _undo(self, k: int, noise: Tensor | None) -> None:
        """From the end of step k to its start."""
        self._meet(k + 1)
        t, h = self.run.plan.step(k)
        step = self.run.integrator.step
        with torch.no_grad():
            before = step(self.run.system, self.state._replace(t=t + h), -h, noise)._replace(t=t)
        if k in self.saved:
            before = before._replace(z=self.saved[k][0])
        with torch.enable_grad():
            before = State(_leaf(before.z), t, tuple(_leaf(m) for m in before.memory))
            after = step(self.run.system, before, h, noise)
        inputs = [before.z, *_tensors(before.memory)]
        outputs = [after.z, *_tensors(after.memory)]
        self._pull(outputs, inputs, [self.cotangent, *self.memory_cotangents])
        self.state = State(before.z.detach(), t, tuple(m.detach() if _is_tensor(m) else m for m in before.memory))

    def _through_init(self) -> list[Tensor]:
        """The memory that a method starts with depends on the initial states and the parameters too."""
        t = self.run.plan.step(0)[0] if self.run.plan.num_steps else 0.0
        with torch.enable_grad():
            z0 = _leaf(self.state.z)
            start = self.run.integrator.init(self.run.system, z0, t)
        cotangent = self.cotangent
        outputs = _tensors(start.memory)
        self._pull(outputs, [z0], self.memory_cotangents)
        return [cotangent + self.cotangent, *self.collected]

    def _pull(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], cotangents: Sequence[Tensor]) -> None:
        """Pull cotangents of outputs back to inputs and parameters."""
        pairs = [(o, c) for o, c in zip(outputs, cotangents, strict=True) if o.requires_grad]
        wanted = [*inputs, *self.parameters]
        if not pairs:
            slopes = [torch.zeros_like(w) for w in wanted]
        else:
            roots, weights = zip(*pairs, strict=True)
            slopes = list(torch.autograd.grad(roots, wanted, weights, allow_unused=True, materialize_grads=True))
        self.cotangent, *self.memory_cotangents = slopes[: len(inputs)]
        self.collected = [c + s for c, s in zip(self.collected, slopes[len(inputs) :], strict=True)]


def _is_tensor(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _tensors(memory: Sequence[Any]) -> list[Tensor]:
    return [m for m in memory if _is_tensor(m)]


def _leaf(value: Any) -> Any:
    """A tensor to differentiate by; other things as they are."""
    return value.detach().requires_grad_() if _is_tensor(value) else value
