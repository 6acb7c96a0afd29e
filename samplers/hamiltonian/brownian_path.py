"""BrownianPath: a Brownian motion on a grid, the same for every step size and every library."""

from __future__ import annotations

from torch import Tensor

from .plan import Plan

__all__ = ["BrownianPath"]


class BrownianPath:
    """To come."""

    def normals(self, plan: Plan) -> Tensor:
        """Standard normal numbers of the steps of a run."""
        raise NotImplementedError
