r"""The information profile of a law: all that the error of a value-independent sampler depends on.

Notation (A is a random set of revealed tokens, d the length):
$f(m) = \mathrm{mean}_{|A|=m} H(X_A)$, $h_m = f(m+1) - f(m)$,
$F(p) = E_{A\sim Bern(p)} H(X_A)$, $g = F'$, so $g(p) = \sum_i E_A H(X_i|X_A)$ with A on the other tokens.
F is concave with F(0) = 0, F(1) = H; g decreases and $g(0) - g(1) = TC + DTC$; $\int_0^1 g = H$.

Source: Lavenant & Zanella 2025, arXiv 2510.25544; Chen, Cong & Li 2025, arXiv 2511.04647.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["Profile", "bernstein"]

_CHUNK = 1 << 22  # binomial weights held at once: 32 MiB


def bernstein(coefficients: Tensor, p: int | float | Tensor) -> Tensor:
    r"""Binomial mean $\sum_m \binom nm p^m (1-p)^{n-m} c_m$, exact at p = 0 and 1 and stable for large n.

    Args:
        coefficients: $c_0..c_n$, shape (n + 1,), float64.
        p: probabilities in [0, 1], any shape.

    Returns:
        float64 tensor of the shape of `p`.

    Raises:
        ValueError: `p` leaves [0, 1] or is NaN.
    """
    points = torch.as_tensor(p, dtype=torch.float64)
    if not bool(((points >= 0) & (points <= 1)).all()):
        raise ValueError(f"p={p} leaves [0, 1]: it is the probability that a token is revealed")
    degree = len(coefficients) - 1
    hits = torch.arange(degree + 1, dtype=torch.float64)
    log_binomial = -torch.lgamma(hits + 1) - torch.lgamma(degree - hits + 1)  # but for a constant
    means = []
    for part in points.reshape(-1, 1).split(max(1, _CHUNK // (degree + 1))):
        log_weights = log_binomial + torch.xlogy(hits, part) + torch.special.xlog1py(degree - hits, -part)
        means.append(torch.softmax(log_weights, dim=-1) @ coefficients)
    return torch.cat(means).reshape(points.shape)


class Profile:
    """Information profile of a law on sequences of `length` tokens, in nats.

    Args:
        f: mean entropy of m tokens for m = 0..d, shape (d + 1,), with f[0] = 0.

    Attributes:
        f: as given, float64.
        h: increments $h_m = f(m+1) - f(m)$, shape (d,): mean entropy of one more token when m are known. They
            decrease for every law; those estimated from a network need not.

    Raises:
        ValueError: `f` is no vector of at least two finite numbers that starts at 0.
    """

    def __init__(self, f: Tensor | Sequence[int | float]) -> None:
        values = torch.as_tensor(f, dtype=torch.float64)
        if values.dim() != 1 or len(values) < 2:
            raise ValueError(f"f has shape {tuple(values.shape)}; give f(0)..f(d), shape (d + 1,), d at least 1")
        if not bool(torch.isfinite(values).all()):
            raise ValueError("f holds a NaN or infinite entry; entropies of finite laws are finite")
        if float(values[0]) != 0.0:
            raise ValueError(f"f[0]={float(values[0])} must be 0, the entropy of no token")
        self.f = values
        self.h = values.diff()

    @classmethod
    def from_increments(cls, h: Tensor | Sequence[int | float]) -> Profile:
        """The profile with the given increments $h_0..h_{d-1}$, which are kept without rounding.

        Raises:
            ValueError: `h` is no vector of at least one finite number.
        """
        increments = torch.as_tensor(h, dtype=torch.float64)
        if increments.dim() != 1 or not len(increments):
            raise ValueError(f"h has shape {tuple(increments.shape)}; give h_0..h_(d-1), shape (d,), d at least 1")
        made = cls(torch.cat([increments.new_zeros(1), increments.cumsum(0)]))
        made.h = increments
        return made

    def __repr__(self) -> str:
        return f"Profile(length={self.length}, entropy={self.entropy:.6g} nats)"

    @property
    def length(self) -> int:
        """Number of tokens d."""
        return len(self.h)

    @property
    def entropy(self) -> float:
        r"""$H(X) = F(1) = \int_0^1 g$; the NELBO when the profile is a network's cross-entropy."""
        return float(self.f[-1])

    @property
    def total_correlation(self) -> float:
        r"""$TC = \sum_i H(X_i) - H(X)$."""
        return float((self.h[0] - self.h).sum())

    @property
    def dual_total_correlation(self) -> float:
        r"""$DTC = H(X) - \sum_i H(X_i|X_{-i})$."""
        return float((self.h - self.h[-1]).sum())

    def F(self, p: int | float | Tensor) -> Tensor:
        """$F(p)$: mean entropy of the tokens revealed, each with probability p."""
        return bernstein(self.f, p)

    def g(self, p: int | float | Tensor) -> Tensor:
        """$g(p) = F'(p)$: summed entropy of the tokens, each given the others revealed with probability p."""
        return self.length * bernstein(self.h, p)

    def slope(self, p: int | float | Tensor) -> Tensor:
        r"""$-g'(p) = \sum_{i\ne j} E_A I(X_i; X_j|X_A)$: information between two tokens revealed together."""
        if self.length == 1:
            return torch.zeros_like(bernstein(self.h, p))
        return self.length * (self.length - 1) * bernstein(-self.h.diff(), p)
