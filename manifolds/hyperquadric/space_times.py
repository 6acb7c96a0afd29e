"""De Sitter and anti-de Sitter space: the Lorentzian manifolds of constant curvature."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..base import PseudoRiemannian
from .base import PseudoHyperquadric
from .hyperboloid import boost_frame
from .sphere import reflection_frame

__all__ = ["AntiDeSitter", "DeSitter"]


class DeSitter(PseudoRiemannian, PseudoHyperquadric):
    r"""De Sitter space-time $-x_0^2+x_1^2+\dots+x_n^2=R^2$, curvature $+1/R^2$, signature (n-1, 1).

    ``logmap`` is NaN where $\langle x,y\rangle\le-R^2$: no geodesic, or no single one (the antipode). The future is
    where $x_0$ grows.

    Args:
        n: intrinsic dimension, at least 2.
        radius: R.
    """

    name = "DeSitter"

    def __init__(self, n: int, *, radius: float = 1.0) -> None:
        super().__init__(n, 1, 1, radius)

    def frame(self, x: Tensor) -> Tensor:
        r"""$E_0$ is the velocity of an observer at rest on the sphere $\vec x/|\vec x|$, which the others span."""
        space = x[..., 1:]
        length = (space * space).sum(-1, keepdim=True).sqrt()
        time = torch.cat([length, space * (x[..., :1] / length)], -1) / self.radius
        spatial = pad(reflection_frame(space / length), (0, 0, 1, 0))
        return torch.cat([time[..., None], spatial], -1)


class AntiDeSitter(PseudoRiemannian, PseudoHyperquadric):
    r"""Anti-de Sitter space-time $-x_0^2-x_1^2+x_2^2+\dots+x_n^2=-R^2$, curvature $-1/R^2$, signature (n-1, 1).

    Time runs in circles, from $x_0$ to $x_1$. ``logmap`` is NaN where $\langle x,y\rangle\ge R^2$.

    Args:
        n: intrinsic dimension, at least 2.
        radius: R.
    """

    name = "AntiDeSitter"

    def __init__(self, n: int, *, radius: float = 1.0) -> None:
        super().__init__(n, 2, -1, radius)

    def frame(self, x: Tensor) -> Tensor:
        r"""$E_0$ is the velocity of an observer at rest at $\vec x$, the others are boosts of the axes of space."""
        time, space = x[..., :2], x[..., 2:]
        direction = time / (time * time).sum(-1, keepdim=True).sqrt()
        forward = torch.stack([-direction[..., 1], direction[..., 0]], -1)
        forward = pad(forward, (0, space.shape[-1]))
        boost = boost_frame(space / self.radius)
        spatial = torch.cat([direction[..., None] * boost[..., :1, :], boost[..., 1:, :]], -2)
        return torch.cat([forward[..., None], spatial], -1)
