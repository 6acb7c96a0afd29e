"""Put a manifold or a Poisson structure of your own through the laws that ours obey."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..base import Manifold
from ..poisson.laws import assert_poisson_laws
from . import calculus, capabilities, geometry
from .case import Case, Law, make_case

__all__ = ["LAWS", "applicable_laws", "assert_manifold_laws", "assert_poisson_laws"]

LAWS: dict[str, Law] = {**geometry.LAWS, **calculus.LAWS, **capabilities.LAWS}


def applicable_laws(manifold: Manifold, dtype: torch.dtype = torch.float64, closed_form: bool = True) -> list[str]:
    """Names of the laws that `assert_manifold_laws` checks on this manifold.

    Args:
        manifold: what to check.
        dtype: in which arithmetic.
        closed_form: False where a geodesic takes an ODE or a nonlinear solve.
    """
    return [name for name, law in LAWS.items() if law.applies(manifold, dtype, closed_form)]


def assert_manifold_laws(
    manifold: Manifold,
    points: Tensor | None = None,
    *,
    dtype: torch.dtype = torch.float64,
    atol: float | None = None,
    seed: int = 0,
    scale: float = 0.7,
    closed_form: bool = True,
    laws: Sequence[str] | None = None,
) -> None:
    r"""Check a manifold against every law of what it declares, and that it refuses what it does not.

    exp, retraction and log, transport, projections, frames, covectors, Christoffel symbols and geodesic equation,
    volume and exp Jacobian, gradients at coincident points and zero vectors, broadcasting, randomness, heat kernel and
    heat equation, causal structure, copies, refusals; if ``closed_form``, also ``vmap``, double backward and
    ``torch.compile(backend="eager", fullgraph=True)``.

    Args:
        manifold: what to check.
        points: where, (..., *point_shape); if None, uniform on a compact manifold, else about its origin.
        dtype: float64, or float32 for a pass without second derivatives.
        atol: tolerance relative to 1 + |value|; by default 1e-10 (1e-7 without closed form), in float32 5e-4 (5e-3).
        seed: of the points and tangent vectors.
        scale: greatest length of the tangent vectors, well below the injectivity radius.
        closed_form: False where a geodesic takes an ODE or a nonlinear solve.
        laws: names from `LAWS` to check; all of `applicable_laws` if None.

    Raises:
        AssertionError: names the manifold, every broken law, and the defect.
        ValueError: a law is unknown, or the manifold has no origin and no points are given.
    """
    unknown = sorted(set(laws or ()) - set(LAWS))
    if unknown:
        raise ValueError(f"laws={unknown} are unknown; there are {sorted(LAWS)}")
    case = make_case(manifold, points, dtype, atol, seed, scale, closed_form)
    names = applicable_laws(manifold, dtype, closed_form) if laws is None else laws
    broken = [report for name in names if (report := _failure(name, LAWS[name], case))]
    if broken:
        raise AssertionError(f"{manifold!r} breaks {len(broken)} law(s):\n  " + "\n  ".join(broken))


def _failure(name: str, law: Law, case: Case) -> str | None:
    """What goes wrong, whether it is a defect or an exception of the manifold's own."""
    try:
        law.check(case)
    except AssertionError as error:
        return f"{name}: {error}"
    except Exception as error:  # the manifold under test may raise anything; the report names it
        return f"{name}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return None
