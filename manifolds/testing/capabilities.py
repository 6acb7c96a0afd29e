"""Laws of randomness, heat, causal structure, copies, and of what a manifold must refuse."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..base import Manifold, UnsupportedError
from .case import Case, Law, jvp

__all__ = ["LAWS"]


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def _randomness(case: Case) -> None:
    m = case.manifold
    size = (3, *m.point_shape)
    draws: dict[str, Callable[[torch.Generator], Tensor]] = {}
    if m.is_riemannian:
        draws["random_tangent"] = lambda g: m.random_tangent(case.x, 0.1, g)
    if m.is_riemannian and m.has_exp:
        draws["wrapped_normal"] = lambda g: m.wrapped_normal(case.x, 0.1, g)
        draws["brownian_step"] = lambda g: m.brownian_step(case.x, 0.01, generator=g)
    if math.isfinite(m.log_volume):
        draws["random_uniform"] = lambda g: m.random_uniform(*size, dtype=case.x.dtype, generator=g)
    for name, draw in draws.items():
        state = torch.get_rng_state()
        sample = draw(_generator())
        if not torch.equal(state, torch.get_rng_state()):
            raise AssertionError(f"{name} with a generator touches torch's global state")
        case.close(draw(_generator()), sample, f"{name} repeats with the same seed", slack=0)
        if torch.equal(draw(_generator().manual_seed(4)), sample):
            raise AssertionError(f"{name} does not depend on the seed")
        projected = m.proju(case.x, sample) if name == "random_tangent" else m.projx(sample)
        case.close(sample, projected, f"{name} stays on the manifold, in the dtype asked for")


def _brownian(case: Case) -> None:
    m = case.manifold
    noise = m.components(case.x, case.u)
    short = m.brownian_step(case.x, 0.01, noise=noise)
    case.close(m.brownian_step(case.x, torch.full_like(noise[:, 0], 0.01), noise=noise), short, "dt per row")
    case.close(m.brownian_step(case.x[0], 0.01, noise=noise[0]), short[0], "one row alone")
    small = m.brownian_step(case.x, 1e-8, noise=noise)
    case.close((small - case.x) / 1e-4, case.u, "brownian_step moves by sqrt(dt) E noise", slack=1e3 + 1e-3 / case.atol)


def _heat_kernel(case: Case) -> None:
    m = case.manifold
    log_kernel = m.log_heat_kernel(case.x, case.y, 0.5)
    case.close(m.log_heat_kernel(case.y, case.x, 0.5), log_kernel, "the heat kernel is symmetric", slack=10)
    per_row = m.log_heat_kernel(case.x, case.y, torch.full_like(log_kernel, 0.5))
    case.close(per_row, log_kernel, "time per row")
    if math.isfinite(m.log_volume):
        late = m.log_heat_kernel(case.x, case.y, 200.0)
        case.close(late, torch.full_like(late, -m.log_volume), "the kernel tends to the uniform law", slack=10)
    early = m.log_heat_kernel(case.x, case.x, 1e-4) + m.dim / 2 * math.log(2 * math.pi * 1e-4)
    case.close(early, torch.zeros_like(early), "(2 pi t)^(n/2) p(x, x, t) tends to 1", slack=1e-2 / case.atol)


def _heat_equation(case: Case) -> None:
    r"""$\partial_t\ell=\frac12(\Delta\ell+|\nabla\ell|^2)$ for $\ell=\log p$, along the geodesics of a frame at y."""
    m = case.manifold
    time = torch.full(case.x.shape[:1], 0.5).to(case.x)
    rate = jvp(lambda t: m.log_heat_kernel(case.x, case.y, t), (time,), (torch.ones_like(time),))[1]
    total = torch.zeros_like(rate)
    for direction in m.frame(case.y).movedim(-1, 0):

        def along(s: Tensor, direction: Tensor = direction) -> Tensor:
            return m.log_heat_kernel(case.x, m.expmap(case.y, m._expand(s) * direction), 0.5)

        one = torch.ones_like(rate)

        def slope(s: Tensor, along: Callable[[Tensor], Tensor] = along, one: Tensor = one) -> Tensor:
            return jvp(along, (s,), (one,))[1]

        first, second = jvp(slope, (torch.zeros_like(rate),), (one,))
        total = total + second + first**2
    case.close(rate, total / 2, "the heat kernel solves the heat equation, generator half the Laplacian", slack=1e4)


def _pseudo(case: Case) -> None:
    m: Any = case.manifold
    frame = m.tetrad(case.x)
    negative = m.signature[1]
    for a in range(m.dim):
        kinds = m.causal_type(case.x, frame[..., a])
        if kinds.dtype != torch.int8 or not (kinds == (-1 if a < negative else 1)).all():
            raise AssertionError(f"causal_type of tetrad vector {a} is {kinds.tolist()}")
    light = m.causal_type(case.x, frame[..., 0] + frame[..., -1])
    if light.any():
        raise AssertionError(f"causal_type of a null vector is {light.tolist()}")
    if negative == 1:
        _lorentz(case, m, frame)


def _lorentz(case: Case, m: Any, frame: Tensor) -> None:
    xi = m.components(case.x, case.v)[..., 1:]
    momentum = frame[..., 0] * 3 + m.combine(case.x, torch.cat([torch.zeros_like(xi[..., :1]), xi], -1))
    boosted = m.boost(momentum, xi, x=case.x)
    zero = torch.zeros_like(xi[..., 0])
    case.close(m.inner(case.x, boosted, momentum), zero, "boost(p, xi) is orthogonal to p", slack=10)
    case.close(m.inner(case.x, boosted), (xi * xi).sum(-1), "boost keeps lengths", slack=10)
    shell = m.project_shell(-momentum, 2.0, x=case.x)
    case.close(m.inner(case.x, shell), zero - 4, "project_shell: <p, p> = -m^2", slack=10)
    case.close(m.project_shell(shell, 2.0, x=case.x), shell, "project_shell is idempotent", slack=10)
    if (m.inner(case.x, shell, frame[..., 0]) >= 0).any():
        raise AssertionError("project_shell is not future-directed")
    if not m.project_shell(frame[..., 1], 2.0, x=case.x).isnan().all():
        raise AssertionError("project_shell of a space-like vector is not NaN")


def _refusals(case: Case) -> None:
    m = case.manifold
    undeclared: dict[str, Callable[[], object]] = {}
    if not m.has_exp:
        undeclared["expmap"] = lambda: m.expmap(case.x, case.u)
    if not m.has_log:
        undeclared["logmap"] = lambda: m.logmap(case.x, case.y)
        undeclared["dist"] = lambda: m.dist(case.x, case.y)
    if not m.has_transport:
        undeclared["parallel_transport"] = lambda: m.parallel_transport(case.x, case.y, case.u)
    if not m.has_kernel:
        undeclared["log_heat_kernel"] = lambda: m.log_heat_kernel(case.x, case.y, 1.0)
    if not m.has_chart:
        undeclared["christoffel"] = lambda: m.christoffel(case.x)
    if math.isinf(m.log_volume):
        undeclared["random_uniform"] = lambda: m.random_uniform(2, *m.point_shape)
    if not m.is_riemannian:
        undeclared["egrad2rgrad"] = lambda: m.egrad2rgrad(case.x, case.u)
        undeclared["random_tangent"] = lambda: m.random_tangent(case.x)
    if not (m.is_riemannian and m.has_exp):
        undeclared["brownian_step"] = lambda: m.brownian_step(case.x, 0.1)
    for name, call in undeclared.items():
        try:
            call()
        except UnsupportedError as error:
            if m.name not in str(error):
                raise AssertionError(f"the refusal of {name} does not name {m.name}: {error}") from error
        else:
            raise AssertionError(f"{name} is not declared, yet it answers instead of raising UnsupportedError")


def _module(case: Case) -> None:
    wanted = case.manifold.retr(case.x, case.u)
    copies: dict[str, Manifold] = {
        "deepcopy": copy.deepcopy(case.manifold),
        "double": copy.deepcopy(case.manifold).double(),
        "pickle": pickle.loads(pickle.dumps(case.manifold)),
    }
    for name, twin in copies.items():
        if type(twin) is not type(case.manifold) or repr(twin) != repr(case.manifold):
            raise AssertionError(f"{name} gives {twin!r}")
        case.close(twin.retr(case.x, case.u), wanted, f"retr of the {name}")
    tensors = list(copies["double"].buffers()) + list(copies["double"].parameters())
    if any(t.is_floating_point() and t.dtype != torch.float64 for t in tensors):
        raise AssertionError(".double() leaves a buffer in another type")
    meta = copy.deepcopy(case.manifold).to("meta")
    if any(t.device.type != "meta" for t in [*meta.buffers(), *meta.parameters()]):
        raise AssertionError(".to('meta') leaves a buffer behind")


LAWS = {
    "randomness": Law(_randomness),
    "brownian": Law(_brownian, lambda manifold: manifold.is_riemannian and manifold.has_exp),
    "heat kernel": Law(_heat_kernel, lambda manifold: manifold.has_kernel),
    "heat equation": Law(_heat_equation, lambda manifold: manifold.has_kernel, double=True),
    "causal structure": Law(_pseudo, lambda manifold: not manifold.is_riemannian),
    "refusals": Law(_refusals),
    "module": Law(_module),
}
