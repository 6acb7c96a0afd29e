"""What only an indefinite metric knows: causal types, boosts, tetrads, mass shells."""

from __future__ import annotations

import torch
from torch import Tensor

from ._checked import CheckedManifold, positive_number
from ._functions import lorentz_boost

__all__ = ["PseudoRiemannian"]


class PseudoRiemannian(CheckedManifold):
    r"""Mixin of manifolds with indefinite metric; boosts and shells need one time-like direction (Lorentzian).

    The future is where the first vector of the tetrad points. Momenta are vectors here: ``raise_`` a covector first.
    """

    def _require_lorentzian(self, what: str) -> None:
        if self.signature[1] != 1:
            self._refuse(what, f"its signature {self.signature} is not Lorentzian (one negative direction)")

    def _foot(self, p: Tensor, x: Tensor | None) -> Tensor:
        """The point where p stands; flat space overrides this, as there it does not matter."""
        if x is None:
            raise ValueError(f"x is None, but on {self!r} a momentum needs its point: pass x=")
        return x

    def tetrad(self, x: Tensor) -> Tensor:
        r"""Orthonormal frame (..., *point_shape, dim), time-like vectors first: another name of `frame`."""
        return self.frame(x)

    def causal_type(self, x: Tensor, v: Tensor) -> Tensor:
        r"""-1 for time-like, 0 for null, +1 for space-like vectors (int8, ...).

        Null means $|\langle v,v\rangle|\le 64\,\epsilon\sum_a c_a^2$, with $c$ the components in ``frame(x)`` and
        $\epsilon$ the rounding unit of the dtype.

        Args:
            x: points (..., *point_shape).
            v: tangent vectors.
        """
        components = self.components(x, v)
        squares = components * components
        square = (squares * self.frame_signs(x)).sum(-1)
        tolerance = 64 * torch.finfo(v.dtype).eps * squares.sum(-1)
        return (square.sign() * (square.abs() > tolerance)).to(torch.int8)

    def boost(self, p: Tensor, xi: Tensor, *, x: Tensor | None = None) -> Tensor:
        r"""Vector that has spatial components $\xi$, and no time component, in the rest frame of p.

        Args:
            p: time-like future-directed vectors (..., *point_shape); NaN where they are not time-like.
            xi: components (..., dim - 1).
            x: the points where p stands; only flat space does without.

        Raises:
            ValueError: the signature is not Lorentzian, or x is missing.
        """
        self._require_lorentzian("boost")
        foot = self._foot(p, x)
        components = self.components(foot, p)
        square = (components * components * self.frame_signs(p)).sum(-1, keepdim=True)
        return self.combine(foot, lorentz_boost(components / (-square).sqrt(), xi))

    def project_shell(self, p: Tensor, mass: float, *, x: Tensor | None = None) -> Tensor:
        r"""Scale momenta onto the future mass shell $\langle p,p\rangle=-m^2$; NaN where p is not time-like.

        A past-directed p is reversed, since its line meets the future shell there.

        Args:
            p: vectors (..., *point_shape).
            mass: rest mass, positive.
            x: the points where p stands; only flat space does without.

        Raises:
            ValueError: the mass is not positive, the signature is not Lorentzian, or x is missing.
        """
        self._require_lorentzian("mass shell")
        components = self.components(self._foot(p, x), p)
        square = (components * components * self.frame_signs(p)).sum(-1)
        scale = positive_number("mass", mass) * components[..., 0].sign() / (-square).sqrt()
        return p * self._expand(torch.where(square < 0, scale, torch.nan))
