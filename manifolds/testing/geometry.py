"""Laws between metric, projections, exponential map, logarithm and transport."""

from __future__ import annotations

import torch

from .._derived import christoffel, exp_logdet
from .case import Case, Law, jvp

__all__ = ["LAWS"]


def _points(case: Case) -> None:
    m = case.manifold
    tolerance = 100 * case.atol
    for name, point in (("x", case.x), ("x moved by u", case.y)):
        ok, reason = m.check_point_on_manifold(point, explain=True, atol=tolerance, rtol=tolerance)
        if not ok:
            raise AssertionError(f"check_point_on_manifold refuses {name}: {reason}")
    ok, reason = m.check_vector_on_tangent(case.x, case.u, explain=True, atol=tolerance, rtol=tolerance)
    if not ok:
        raise AssertionError(f"check_vector_on_tangent refuses a vector of the frame: {reason}")
    bad_point, bad_vector = case.x.clone(), case.u.clone()
    bad_point.view(-1)[0] = bad_vector.view(-1)[0] = torch.nan
    for ok, reason in (
        m.check_point_on_manifold(bad_point, explain=True),
        m.check_vector_on_tangent(case.x, bad_vector, explain=True),
        m.check_point_on_manifold(case.x[..., :-1], explain=True),
    ):
        if ok or not reason:
            raise AssertionError("the checks accept NaN or a wrong shape, or give no reason")


def _projections(case: Case) -> None:
    m = case.manifold
    noise = torch.randn(case.x.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).to(case.x)
    case.close(m.projx(case.x), case.x, "projx(x) = x")
    projected = m.projx(case.x + 0.05 * noise)
    case.close(m.projx(projected), projected, "projx(projx(x)) = projx(x)")
    case.close(m.proju(case.x, case.u), case.u, "proju(x, u) = u for tangent u")
    tangent = m.proju(case.x, noise)
    case.close(m.proju(case.x, tangent), tangent, "proju(x, proju(x, w)) = proju(x, w)")
    case.close(m.combine(case.x, m.components(case.x, tangent)), tangent, "proju(x, w) lies in the span of the frame")


def _frame(case: Case) -> None:
    m = case.manifold
    frame = m.frame(case.x)
    if frame.shape != (*case.x.shape, m.dim):
        raise AssertionError(f"frame(x) has shape {tuple(frame.shape)}, wanted {(*case.x.shape, m.dim)}")
    vectors = frame.movedim(-1, 0)
    gram = m.inner(case.x, vectors[:, None], vectors[None])
    eta = torch.diag(m.frame_signs(case.x))
    case.close(gram, eta[:, :, None].expand_as(gram), "inner(E_a, E_b) = eta_ab")
    case.close(m.proju(case.x, vectors), vectors, "frame vectors are tangent")
    components = m.components(case.x, case.v)
    case.close(m.combine(case.x, components), case.v, "combine(components(v)) = v")


def _metric(case: Case) -> None:
    m = case.manifold
    inner = m.inner(case.x, case.u, case.v)
    case.close(m.inner(case.x, case.v, case.u), inner, "inner is symmetric")
    case.close(m.inner(case.x, 2 * case.u + case.w, case.v), 2 * inner + m.inner(case.x, case.w, case.v), "bilinear")
    case.close(m.norm(case.x, case.u) ** 2, m.inner(case.x, case.u).abs(), "norm^2 = |inner|")
    identity = torch.eye(m.dim).to(case.x).expand(*inner.shape, m.dim, m.dim)
    case.close(m.metric(case.x) @ m.cometric(case.x), identity, "metric @ cometric = 1")
    left, right = (t if m.has_chart else m.components(case.x, t) for t in (case.u, case.v))
    case.close(torch.einsum("bi,bij,bj->b", left, m.metric(case.x), right), inner, "u . metric v = inner(u, v)")
    for keepdim in (m.inner(case.x, case.u, keepdim=True), m.norm(case.x, case.u, keepdim=True)):
        if keepdim.shape != (*inner.shape, *[1] * m.ndim):
            raise AssertionError(f"keepdim=True gives shape {tuple(keepdim.shape)}")


def _covectors(case: Case) -> None:
    m = case.manifold
    covector = m.lower(case.x, case.u)
    case.close(m._sum(covector * case.v), m.inner(case.x, case.u, case.v), "lower(u) . v = inner(u, v)")
    case.close(m.raise_(case.x, covector), case.u, "raise_(lower(u)) = u")
    if m.is_riemannian:
        gradient = torch.cos(torch.arange(case.x.numel())).to(case.x).reshape(case.x.shape)
        found = m.egrad2rgrad(case.x, gradient)
        case.close(m.proju(case.x, found), found, "egrad2rgrad is tangent")
        case.close(m.inner(case.x, found, case.v), m._sum(gradient * case.v), "inner(egrad2rgrad(g), v) = g . v")


def _volume(case: Case) -> None:
    m = case.manifold
    density = torch.linalg.slogdet(m.metric(case.x)).logabsdet / 2
    case.close(m.log_volume_density(case.x), density, "log_volume_density = log|det metric| / 2")


def _exp_jacobian(case: Case) -> None:
    m = case.manifold
    case.close(m.exp_logdet(case.x, case.u), exp_logdet(m, case.x, case.u), "exp_logdet = log|det d exp|", slack=10)


def _christoffel(case: Case) -> None:
    m = case.manifold
    case.close(m.christoffel(case.x), christoffel(m, case.x), "christoffel = derivative of metric", slack=10)


def _starts(case: Case, name: str) -> None:
    """From x, with velocity u, onto the manifold."""
    move, zero = getattr(case.manifold, name), torch.zeros_like(case.u)
    case.close(move(case.x, zero), case.x, f"{name}(x, 0) = x")
    moved = move(case.x, case.u)
    case.close(case.manifold.projx(moved), moved, f"{name}(x, u) is on the manifold")
    velocity = jvp(lambda s: move(case.x, s * case.u), (torch.zeros_like(case.x),), (1 + zero,))[1]
    case.close(velocity, case.u, f"d/ds {name}(x, s u) = u at s = 0", slack=10)


def _exponential(case: Case) -> None:
    _starts(case, "expmap")


def _retraction(case: Case) -> None:
    m = case.manifold
    _starts(case, "retr")
    y, along = m.retr_transp(case.x, case.u, case.v)
    case.close(m.retr(case.x, case.u), y, "retr_transp gives (point, vector)")
    case.close(m.proju(y, along), along, "retr_transp gives a tangent vector", slack=10)


def _logarithm(case: Case) -> None:
    m = case.manifold
    log = m.logmap(case.x, case.y)
    case.close(log, case.u, "logmap(x, expmap(x, u)) = u", slack=10)
    case.close(m.assert_logmap(case.x, case.y), log, "assert_logmap = logmap")
    dist = m.dist(case.x, case.y)
    case.close(dist, m.norm(case.x, case.u), "dist(x, expmap(x, u)) = norm(u)", slack=10)
    case.close(m.dist(case.y, case.x), dist, "dist is symmetric", slack=10)
    case.close(m.dist2(case.x, case.y), dist**2, "dist2 = dist^2", slack=10)
    if m.dist(case.x, case.y, keepdim=True).shape != (*dist.shape, *[1] * m.ndim):
        raise AssertionError("dist(keepdim=True) does not keep the point axes")


def _transport(case: Case) -> None:
    m = case.manifold
    moved, other = (m.parallel_transport(case.x, case.y, t) for t in (case.v, case.w))
    case.close(m.proju(case.y, moved), moved, "parallel_transport is tangent at y")
    case.close(m.inner(case.y, moved, other), m.inner(case.x, case.v, case.w), "parallel_transport is isometric", 10)
    case.close(m.parallel_transport(case.y, case.x, moved), case.v, "transport back is the inverse", slack=10)
    case.close(m.parallel_transport(case.x, case.x, case.v), case.v, "transport to the same point changes nothing")
    case.close(m.transp(case.x, case.y, case.v), moved, "transp is parallel_transport")
    if m.has_log:
        back = m.parallel_transport(case.x, case.y, m.logmap(case.x, case.y))
        case.close(back, -m.logmap(case.y, case.x), "transport carries log_x(y) to -log_y(x)", slack=10)


def _vector_transport(case: Case) -> None:
    m = case.manifold
    case.close(m.transp(case.x, case.y, case.v), m.proju(case.y, case.v), "transp is the projection")


LAWS = {
    "points": Law(_points),
    "projections": Law(_projections),
    "frame": Law(_frame),
    "metric": Law(_metric),
    "covectors": Law(_covectors),
    "volume": Law(_volume),
    "christoffel": Law(_christoffel, lambda manifold: manifold.has_chart),
    "exponential": Law(_exponential, lambda manifold: manifold.has_exp),
    "exp jacobian": Law(_exp_jacobian, lambda manifold: manifold.has_exp),
    "retraction": Law(_retraction),
    "logarithm": Law(_logarithm, lambda manifold: manifold.has_log),
    "transport": Law(_transport, lambda manifold: manifold.has_transport),
    "vector transport": Law(_vector_transport, lambda manifold: not manifold.has_transport),
}
