r"""The formula sheet: what theory says of errors, steps and network calls, each function citing its equation.

Labels B1..B10 are explained in the modules: `initialisation` (B1, B2), `leaping` (B3), `paths` (B4-B6),
`expansion` (B7), `closed_forms` (B8), `uniformization` (B10), `scores`, `steps`. Divergences are in nats.
Times are in the clock of rate 1, $\alpha_t = e^{-t}$; for another schedule give its $\sigma(t)$. Formulas of
scalars take floats or tensors and return floats or float64 tensors.
"""

from __future__ import annotations

from .closed_forms import parity_kl, parity_path_kl, perm_kl, repeat_kl
from .expansion import FirstOrder, first_order_deviation, first_order_limits
from .initialisation import early_stop_kl, early_stop_tv, init_kl_bound, init_kl_exact, init_kl_marginal
from .leaping import PathError, tau_mask_probability, tau_path_kl, tau_product_kl
from .paths import (
    fixed_size_bound,
    fixed_size_path_kl,
    li_cai_bound,
    optimal_grid_constant,
    path_kl,
    path_kl_bound,
    path_kl_crude,
    path_kl_crudest,
    path_nelbo,
    uniform_grid_constant,
)
from .scores import MaskShares, mask_shares, score_bound, score_bound_crude, total_rate_bound
from .steps import (
    kappa_steps,
    kappa_steps_estimate,
    lazy_nfe,
    seed_rate,
    steps_for,
    steps_for_law,
    steps_for_parity,
    steps_for_path,
)
from .uniformization import (
    unif_calls,
    unif_candidates_absorb,
    unif_candidates_grid,
    unif_candidates_mask_aware,
    unif_candidates_paper,
    unif_candidates_uniform,
    unif_candidates_uniform_paper,
    unif_jumps_uniform,
    unif_nostop,
)

__all__ = [
    "FirstOrder",
    "MaskShares",
    "PathError",
    "early_stop_kl",
    "early_stop_tv",
    "first_order_deviation",
    "first_order_limits",
    "fixed_size_bound",
    "fixed_size_path_kl",
    "init_kl_bound",
    "init_kl_exact",
    "init_kl_marginal",
    "kappa_steps",
    "kappa_steps_estimate",
    "lazy_nfe",
    "li_cai_bound",
    "mask_shares",
    "optimal_grid_constant",
    "parity_kl",
    "parity_path_kl",
    "path_kl",
    "path_kl_bound",
    "path_kl_crude",
    "path_kl_crudest",
    "path_nelbo",
    "perm_kl",
    "repeat_kl",
    "score_bound",
    "score_bound_crude",
    "seed_rate",
    "steps_for",
    "steps_for_law",
    "steps_for_parity",
    "steps_for_path",
    "tau_mask_probability",
    "tau_path_kl",
    "tau_product_kl",
    "total_rate_bound",
    "unif_calls",
    "unif_candidates_absorb",
    "unif_candidates_grid",
    "unif_candidates_mask_aware",
    "unif_candidates_paper",
    "unif_candidates_uniform",
    "unif_candidates_uniform_paper",
    "unif_jumps_uniform",
    "unif_nostop",
    "uniform_grid_constant",
]
