"""Entropies and information profiles of laws and of networks: exact, in closed form, or estimated."""

from __future__ import annotations

from .closed_forms import (
    markov_chain_profile,
    parity_profile,
    permutation_profile,
    product_profile,
    repeated_symbol_profile,
)
from .entropies import check_pmf, dual_total_correlation, entropy, profile, total_correlation
from .estimates import ProfileEstimate, cyclic_stride, estimate_profile
from .profiles import Profile, bernstein

__all__ = [
    "Profile",
    "ProfileEstimate",
    "bernstein",
    "check_pmf",
    "cyclic_stride",
    "dual_total_correlation",
    "entropy",
    "estimate_profile",
    "markov_chain_profile",
    "parity_profile",
    "permutation_profile",
    "product_profile",
    "profile",
    "repeated_symbol_profile",
    "total_correlation",
]
