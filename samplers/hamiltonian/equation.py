"""What an integrator may ask of any equation of motion."""

from __future__ import annotations

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor, nn

from manifolds import Manifold

from .gradient import Time

__all__ = ["Equation", "check_states", "differentiable_tensors"]


class Equation(nn.Module, ABC):
    r"""$dz=b(z,t)\,dt+G(z,t)\,dW$ for states (B, n), rows independent; abstract: `HamiltonianSystem` and `SDE`.

    Attributes:
        space: manifold on which the states live, or None.
    """

    space: Manifold | None

    @property
    @abstractmethod
    def calculus(self) -> str:
        """How the product with noise is meant: "ito" or "stratonovich"."""

    @property
    @abstractmethod
    def noise_size(self) -> int:
        """Number m of Brownian motions."""

    @abstractmethod
    def bind(self, z0: Tensor) -> None:
        """Check the shape and type of states, and learn from them what the equation leaves open.

        Raises:
            TypeError: not a floating-point tensor.
            ValueError: not (B, n), or n does not fit.
        """

    @abstractmethod
    def drift(self, z: Float[Tensor, "B n"], t: Time | None = None) -> Float[Tensor, "B n"]:
        """The drift b (B, n), in the equation's calculus."""

    @abstractmethod
    def diffuse(self, z: Float[Tensor, "B n"], w: Float[Tensor, "B m"], t: Time | None = None) -> Float[Tensor, "B n"]:
        """The change G(z) w (B, n) for increments w (B, m)."""

    @abstractmethod
    def is_differentiable(self, z: Tensor, t: Time | None = None) -> bool:
        """Whether, in grad mode, drift or noise depend on something that requires a gradient, closures included."""


def differentiable_tensors(equation: Equation) -> list[Tensor]:
    """Parameters and buffers of an equation that require a gradient."""
    return [tensor for tensor in (*equation.parameters(), *equation.buffers()) if tensor.requires_grad]


def check_states(z0: Tensor, size: int | None) -> None:
    """Raise unless z0 is a floating-point tensor (B, n), with n = size where that is known.

    Raises:
        TypeError: no tensor, or not floating point.
        ValueError: another shape.
    """
    if not isinstance(z0, Tensor):
        raise TypeError(f"z0 must be a tensor (B, n), got {type(z0).__name__}")
    if not z0.is_floating_point():
        raise TypeError(f"z0 has dtype {z0.dtype}: give floating-point states, z0.double() for example")
    if z0.dim() != 2:
        raise ValueError(f"z0 has shape {tuple(z0.shape)}; states are (B, n), so one state is z0[None]")
    if size is not None and z0.shape[-1] != size:
        raise ValueError(f"z0 has {z0.shape[-1]} columns, but a state of this system has {size}")
