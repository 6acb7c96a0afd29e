"""Information profiles in closed form of laws too long to enumerate. Natural logarithms (nats), float64."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .profiles import Profile

__all__ = [
    "markov_chain_profile",
    "parity_profile",
    "permutation_profile",
    "product_profile",
    "repeated_symbol_profile",
]


def _check_sizes(length: int, vocab_size: int = 1) -> None:
    if length < 1:
        raise ValueError(f"length={length} must be at least 1")
    if vocab_size < 1:
        raise ValueError(f"vocab_size={vocab_size} must be at least 1")


def product_profile(mean_entropy: int | float, length: int) -> Profile:
    r"""Independent tokens of the given mean entropy: $f(m) = m\,\overline{H(X_i)}$.

    Args:
        mean_entropy: mean over tokens of $H(X_i)$, nats.
        length: number of tokens d.

    Raises:
        ValueError: a negative or infinite entropy, or a length below 1.
    """
    _check_sizes(length)
    if not 0.0 <= mean_entropy < math.inf:
        raise ValueError(f"mean_entropy={mean_entropy} must be finite and not negative")
    return Profile.from_increments(torch.full((length,), float(mean_entropy), dtype=torch.float64))


def parity_profile(length: int, vocab_size: int) -> Profile:
    r"""Uniform symbols with a zero check sum, $X_d = -\sum_{i<d} X_i \bmod K$: $f(m) = \min(m, d-1)\log K$.

    Raises:
        ValueError: a length or vocabulary below 1.
    """
    _check_sizes(length, vocab_size)
    increments = torch.full((length,), math.log(vocab_size), dtype=torch.float64)
    increments[-1] = 0.0
    return Profile.from_increments(increments)


def permutation_profile(length: int) -> Profile:
    r"""A uniform permutation of d symbols: $h_m = \log(d-m)$.

    Raises:
        ValueError: a length below 1.
    """
    _check_sizes(length)
    return Profile.from_increments(torch.arange(length, 0, -1, dtype=torch.float64).log())


def repeated_symbol_profile(length: int, vocab_size: int) -> Profile:
    r"""One uniform symbol, repeated in all tokens: $f(m) = \log K$ for m > 0.

    Raises:
        ValueError: a length or vocabulary below 1.
    """
    _check_sizes(length, vocab_size)
    increments = torch.zeros(length, dtype=torch.float64)
    increments[0] = math.log(vocab_size)
    return Profile.from_increments(increments)


def markov_chain_profile(initial: Tensor, transition: Tensor, length: int) -> Profile:
    r"""Profile of a stationary Markov chain, reversible or not.

    Revealed tokens form a chain themselves, so $H(X_A) = H(\pi) + \sum \eta(\text{gap})$ with
    $\eta(n) = H(X_n|X_0)$, and a pair at distance n is adjacent in $\binom{d-n-1}{m-2}$ sets of size m:
    $f(m) = H(\pi) + \sum_n \eta(n)\,w(n,m)$, $w(n,m) = (d-n)\binom{d-n-1}{m-2}/\binom dm$, $\sum_n w = m-1$.

    Args:
        initial: stationary law $\pi$ of a token, shape (K,).
        transition: $P_{ab} = P(X_{i+1}=b|X_i=a)$, shape (K, K).
        length: number of tokens d. Work grows as $d K^3 + d^2$.

    Raises:
        ValueError: no stochastic matrix, a law of another size, or a chain that does not start stationary
            (then the entropies depend on positions, not only on gaps).
    """
    _check_sizes(length)
    law, matrix = _check_chain(initial, transition)
    marginal = float(torch.special.entr(law).sum())
    information = marginal - _lagged_entropies(law, matrix, length)  # I(X_0; X_n), n = 1..d-1
    size = torch.arange(length + 1, dtype=torch.float64)
    weight = size * (size - 1) / length  # w(1, m)
    shared = torch.zeros_like(size)
    for gap in range(1, length):
        shared += information[gap - 1] * weight
        weight = weight * ((length - gap - size + 1) / (length - gap)).clamp(min=0.0)
    return Profile.from_increments(marginal - shared.diff())


def _lagged_entropies(law: Tensor, matrix: Tensor, length: int) -> Tensor:
    r"""$\eta(n) = H(X_n|X_0)$ for n = 1..length - 1."""
    power, entropies = torch.eye(len(law), dtype=torch.float64), torch.zeros(length - 1, dtype=torch.float64)
    for lag in range(length - 1):
        power = power @ matrix
        entropies[lag] = law @ torch.special.entr(power).sum(-1)
    return entropies


def _check_chain(initial: Tensor, transition: Tensor) -> tuple[Tensor, Tensor]:
    """The chain as float64 tensors, or a ValueError."""
    law = torch.as_tensor(initial, dtype=torch.float64)
    matrix = torch.as_tensor(transition, dtype=torch.float64)
    if law.dim() != 1 or matrix.shape != (len(law), len(law)):
        raise ValueError(
            f"initial has shape {tuple(law.shape)}, transition {tuple(matrix.shape)}; give (K,) and (K, K)"
        )
    rows = torch.cat([law[None], matrix])
    if not bool((rows >= 0).all() & ((rows.sum(-1) - 1.0).abs() <= 1e-9).all()):
        raise ValueError("initial and each row of transition must be laws: not negative, sum 1 to 1e-9")
    drift = float((law @ matrix - law).abs().max())
    if drift > 1e-9:
        raise ValueError(
            f"initial is not stationary (initial @ transition differs by {drift:.3g}): entropies depend on "
            "positions and not only on gaps; start in the stationary law, or use profile or estimate_profile"
        )
    return law, matrix
