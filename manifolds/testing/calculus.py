"""Laws of differentiation and batching: geodesics, gradients where points meet, broadcasting, vmap, compile."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .case import Case, Law, jvp

__all__ = ["LAWS"]

Operations = dict[str, Callable[..., Tensor]]


def operations(case: Case) -> Operations:
    """Everything the manifold computes from (x, y, u, v), by name."""
    m = case.manifold
    found: Operations = {
        "projx": lambda x, y, u, v: m.projx(x),
        "proju": lambda x, y, u, v: m.proju(x, u),
        "inner": lambda x, y, u, v: m.inner(x, u, v),
        "norm": lambda x, y, u, v: m.norm(x, u),
        "retr": lambda x, y, u, v: m.retr(x, u),
        "transp": lambda x, y, u, v: m.transp(x, y, v),
        "frame": lambda x, y, u, v: m.frame(x),
        "metric": lambda x, y, u, v: m.metric(x),
        "lower": lambda x, y, u, v: m.lower(x, u),
        "raise_": lambda x, y, u, v: m.raise_(x, u),
        "log_volume_density": lambda x, y, u, v: m.log_volume_density(x),
    }
    if m.has_exp:
        found["expmap"] = lambda x, y, u, v: m.expmap(x, u)
        found["geodesic_flow"] = lambda x, y, u, v: m.geodesic_flow(x, u, 0.5)[1]
        found["exp_logdet"] = lambda x, y, u, v: m.exp_logdet(x, u)
    if m.has_log:
        found["logmap"] = lambda x, y, u, v: m.logmap(x, y)
        found["dist"] = lambda x, y, u, v: m.dist(x, y)
        found["dist2"] = lambda x, y, u, v: m.dist2(x, y)
    if m.has_kernel:
        found["log_heat_kernel"] = lambda x, y, u, v: m.log_heat_kernel(x, y, 0.5)
    if m.has_chart:
        found["christoffel"] = lambda x, y, u, v: m.christoffel(x)
    return found


def _motion(case: Case, at: float) -> tuple[Tensor, Tensor, Tensor]:
    """Position, velocity and acceleration of expmap(x, t u); the latter from differences where an ODE is solved."""

    def moving(t: Tensor) -> tuple[Tensor, Tensor]:
        return jvp(lambda s: case.manifold.expmap(case.x, s * case.u), (t,), (torch.ones_like(t),))

    time, step = torch.full_like(case.x, at), 1e-3
    if case.closed_form:
        (q, velocity), (_, acceleration) = jvp(moving, (time,), (torch.ones_like(time),))
    else:
        (q, velocity), before, after = (moving(time + shift) for shift in (0, -step, step))
        acceleration = (after[1] - before[1]) / (2 * step)
    return q, velocity, acceleration


def _geodesic(case: Case) -> None:
    r"""Euler-Lagrange: $\frac{d}{dt}\partial_{\dot q}L-\partial_q L$ annihilates tangents, $L=\frac12|\dot q|^2$.

    This is the geodesic equation of any metric, in a chart or embedded, however ``inner`` extends off the manifold.
    """
    m = case.manifold
    q, velocity, acceleration = _motion(case, 0.8)
    speed = m.inner(q, velocity, velocity)
    case.close(speed, m.inner(case.x, case.u), "the speed of expmap(x, t u) is constant", slack=100)

    def slopes(q: Tensor, velocity: Tensor) -> tuple[Tensor, Tensor]:
        both: tuple[Tensor, Tensor] = torch.func.grad(lambda q, v: m.inner(q, v, v).sum() / 2, (0, 1))(q, velocity)
        return both

    (force, _), (_, rate) = jvp(slopes, (q, velocity), (velocity, acceleration))
    covector = rate - force
    pairing = torch.einsum("bna,bn->ba", m.frame(q).flatten(1, -2), covector.flatten(1))
    case.close(pairing, torch.zeros_like(pairing), "expmap(x, t u) solves the geodesic equation", slack=1000)


def _flow(case: Case) -> None:
    """The flow ends where expmap does, with the velocity that the point then has, and two flows make one."""
    m, first, second = case.manifold, 0.7, -1.2
    point, velocity = m.geodesic_flow(case.x, case.u, first)
    time = torch.full_like(case.x, first)
    wanted, rate = jvp(lambda s: m.expmap(case.x, s * case.u), (time,), (torch.ones_like(time),))
    case.close(point, wanted, "the point of geodesic_flow(x, u, t) is expmap(x, t u)", slack=10)
    case.close(velocity, rate, "the velocity of geodesic_flow(x, u, t) is that of expmap(x, t u)", slack=100)
    onward = m.geodesic_flow(point, velocity, torch.full_like(m.inner(point, velocity), second))
    whole = m.geodesic_flow(case.x, case.u, first + second)
    for name, after, at_once in zip(("point", "velocity"), onward, whole, strict=True):
        case.close(after, at_once, f"the {name} after geodesic_flow by s, then t, is that after s + t", slack=100)


def _leaf(tensor: Tensor) -> Tensor:
    return tensor.detach().clone().requires_grad_()


def _slopes(loss: Tensor, variables: Sequence[Tensor], create_graph: bool = False) -> tuple[Tensor, ...]:
    """Gradients, zero where the loss does not depend on a variable."""
    if not loss.requires_grad:
        return tuple(torch.zeros_like(t) for t in variables)
    return torch.autograd.grad(loss, variables, create_graph=create_graph, allow_unused=True, materialize_grads=True)


def _gradients(case: Case) -> None:
    m = case.manifold
    zero, probe = _leaf(torch.zeros_like(case.u)), torch.cos(torch.arange(case.x.numel())).to(case.x).view_as(case.x)
    for name, value in (("norm", m.norm(case.x, zero)), ("expmap or retr", case.move(case.x, zero) * probe)):
        slope = torch.autograd.grad(value.sum(), zero)[0]
        case.finite(slope, f"gradient of {name} at the zero vector")
    case.close(
        m._sum(slope * case.v), m._sum(probe * case.v), "d expmap(x, u) or d retr(x, u) = identity at u = 0", slack=10
    )
    for name, operation in operations(case).items():
        if name in ("norm", "exp_logdet"):
            continue
        points = [_leaf(t) for t in (case.x, case.x, torch.zeros_like(case.u), case.v)]
        slopes = _slopes(operation(*points).sum(), points)
        for variable, slope in zip("xyuv", slopes, strict=True):
            case.finite(slope, f"gradient of {name} w.r.t. {variable} at coincident points")
    if m.has_log:
        _coincident_distances(case, probe)


def _coincident_distances(case: Case, probe: Tensor) -> None:
    m = case.manifold
    x, y = _leaf(case.x), _leaf(case.x)
    for slope in torch.autograd.grad(m.dist2(x, y).sum(), (x, y)):
        case.close(slope, torch.zeros_like(slope), "gradient of dist2 is 0 at coincident points")
    slope = torch.autograd.grad(m.dist(x, y).sum(), y)[0]
    if m.is_riemannian:
        length = m.norm(case.x, m.egrad2rgrad(case.x, slope))
        case.close(length.clamp(min=1), torch.ones_like(length), "gradient of dist at coincident points is at most 1")
    slope = torch.autograd.grad((m.logmap(x, y) * probe).sum(), y)[0]
    case.close(m._sum(slope * case.v), m._sum(probe * case.v), "d logmap(x, y) = identity at y = x", slack=10)


def _broadcast(case: Case) -> None:
    m = case.manifold
    x = case.x[:1]
    u = torch.stack([m.combine(x, m.components(case.x, t)) for t in (case.u, case.v)])  # (2, B, *point_shape), at x
    y, v = case.move(x, u), u.flip(0)
    rows = [(1, len(case.x) - 1), (0, 0)][: 1 + case.closed_form]
    for name, operation in operations(case).items():
        together = operation(x, y, u, v)
        for i, j in rows:
            alone = operation(x[0], y[i, j], u[i, j], v[i, j])
            row = together[i, j] if together.dim() > alone.dim() + 1 else together[0]
            case.close(row, alone, f"{name} of one x against (2, B) others, row {i, j}")


def _vmap(case: Case) -> None:
    arguments = (case.x, case.y, case.u, case.v)
    for name, operation in operations(case).items():
        case.close(torch.func.vmap(operation)(*arguments), operation(*arguments), f"vmap of {name}")


def _compile(case: Case) -> None:
    table, arguments = operations(case), (case.x, case.y, case.u, case.v)

    def everything(x: Tensor, y: Tensor, u: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        return tuple(operation(x, y, u, v) for operation in table.values())

    torch.compiler.reset()
    compiled = torch.compile(everything, backend="eager", fullgraph=True)(*arguments)
    for name, found, wanted in zip(table, compiled, everything(*arguments), strict=True):
        case.close(found, wanted, f"torch.compile of {name}")


def _double_backward(case: Case) -> None:
    step = 1e-5
    for name, operation in operations(case).items():

        def slopes(x: Tensor, u: Tensor, operation: Callable[..., Tensor] = operation) -> tuple[Tensor, ...]:
            loss = (operation(x, case.y, u, case.v) ** 2).sum()
            return _slopes(loss, (x, u), create_graph=True)

        x, u = _leaf(case.x), _leaf(case.u)
        first = torch.stack([(slope * case.w).sum() for slope in slopes(x, u)]).sum()
        second = _slopes(first, (x, u))
        sides = []
        for sign in (1, -1):
            moved = slopes(_leaf(case.x + sign * step * case.w), _leaf(case.u + sign * step * case.w))
            sides.append([slope.detach() for slope in moved])
        for variable, found, up, down in zip("xu", second, *sides, strict=True):
            wanted = (up - down) / (2 * step)
            scale = 1 + wanted.abs().max()
            case.close(found / scale, wanted / scale, f"second derivative of {name} w.r.t. {variable}", slack=1e5)


LAWS = {
    "geodesic": Law(_geodesic, lambda manifold: manifold.has_exp, double=True),
    "geodesic flow": Law(_flow, lambda manifold: manifold.has_exp),
    "gradients": Law(_gradients),
    "broadcast": Law(_broadcast),
    "vmap": Law(_vmap, closed_form=True),
    "compile": Law(_compile, closed_form=True, double=True),
    "double backward": Law(_double_backward, closed_form=True, double=True),
}
