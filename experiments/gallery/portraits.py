"""What the gallery shows of each Riemannian manifold: where its curves start, how they are drawn, and one exact law."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from manifolds import (
    SE3,
    SO3,
    SPD,
    ChartManifold,
    Embedded,
    Euclidean,
    Hyperboloid,
    Manifold,
    PoincareBall,
    Product,
    Sphere,
    Stiefel,
    Torus,
)
from manifolds.heat import so3_log_angle_density

__all__ = ["PORTRAITS", "Law", "Portrait", "radial_density"]


@dataclass(frozen=True)
class Law:
    """The exact law of one number of a Brownian motion.

    Attributes:
        name: what the number is.
        time: of the Brownian motion.
        statistic: points (N, *point_shape) -> (N,).
        density: (M,) -> (M,).
        support: where the density lives.
        steps: of the walk.
    """

    name: str
    time: float
    statistic: Callable[[Tensor], Tensor]
    density: Callable[[Tensor], Tensor]
    support: tuple[float, float]
    steps: int = 60


@dataclass(frozen=True)
class Portrait:
    """A manifold in three panels.

    Attributes:
        name: file name.
        title: heading.
        manifold: the manifold.
        start: the point all curves leave from, float64.
        plane: points -> (..., 2), what is drawn.
        axes: names of the two coordinates drawn.
        law: the third panel.
        reach: length of the geodesics.
        outline: draw the unit circle.
        tangents: two orthonormal tangent vectors at the start that span the geodesics drawn; None takes the first and
            the last of the frame.
        by_retraction: walk by retractions, where an exponential map costs an integration.
    """

    name: str
    title: str
    manifold: Manifold
    start: Tensor
    plane: Callable[[Tensor], Tensor]
    axes: tuple[str, str]
    law: Law
    reach: float = math.pi
    outline: bool = False
    tangents: tuple[Tensor, Tensor] | None = None
    by_retraction: bool = False


def vector(*values: float) -> Tensor:
    """A float64 vector."""
    return torch.tensor(values, dtype=torch.float64)


def radial_density(manifold: Manifold, start: Tensor, time: float, first: int = 0) -> Callable[[Tensor], Tensor]:
    r"""Density of the distance r: $|S^{n-1}|\,r^{n-1}\,|\det d\exp|\,p_t$ where it is the same in all directions."""
    n = manifold.dim
    log_area = math.log(2) + n / 2 * math.log(math.pi) - math.lgamma(n / 2)
    direction = manifold.frame(start)[..., first]

    def density(r: Tensor) -> Tensor:
        tangent = r.reshape(-1, *[1] * manifold.ndim) * direction
        point = start.expand_as(tangent)
        kernel = manifold.log_heat_kernel(point, manifold.expmap(point, tangent), time)
        return (log_area + (n - 1) * r.log() + manifold.exp_logdet(point, tangent) + kernel).exp()

    return density


def radial_law(manifold: Manifold, start: Tensor, time: float, limit: float) -> Law:
    """The distance from the start."""

    def distance(x: Tensor) -> Tensor:
        return manifold.dist(start.expand_as(x), x)

    return Law("distance from the start", time, distance, radial_density(manifold, start, time), (1e-6, limit))


def normal_density(variance: float) -> Callable[[Tensor], Tensor]:
    """Of a centred normal law."""
    return lambda x: (-(x**2) / (2 * variance)).exp() / math.sqrt(2 * math.pi * variance)


def euclidean() -> Portrait:
    manifold, start = Euclidean(2), vector(0.0, 0.0)
    law = radial_law(manifold, start, 0.5, 4.0)
    return Portrait("euclidean", "Euclidean(2)", manifold, start, lambda x: x, ("x", "y"), law, reach=2.0)


def torus() -> Portrait:
    circle, zero = Torus(1), vector(0.0)
    law = Law(
        "first angle",
        2.0,
        lambda x: x[:, 0],
        lambda a: circle.log_heat_kernel(zero.expand(len(a), 1), a[:, None], 2.0).exp(),
        (-math.pi, math.pi),
    )
    return Portrait(
        "torus", "Torus(2)", Torus(2), vector(0.0, 0.0), lambda x: x, ("angle 1", "angle 2"), law, reach=7.0
    )


def sphere() -> Portrait:
    manifold = Sphere(2)
    start = manifold.projx(vector(0.4, 0.3, 1.0))
    law = radial_law(manifold, start, 0.5, math.pi - 1e-3)
    return Portrait(
        "sphere", "Sphere(2) seen from above", manifold, start, lambda x: x[..., :2], ("x", "y"), law, 2.8, True
    )


def hyperboloid() -> Portrait:
    manifold = Hyperboloid(2)
    start = manifold.projx(vector(1.0, 0.5, 0.2))
    law = radial_law(manifold, start, 0.5, 5.0)
    axes = ("x / (1 + t)", "y / (1 + t)")
    plane = lambda x: x[..., 1:] / (1 + x[..., :1])  # noqa: E731
    return Portrait("hyperboloid", "Hyperboloid(2) in the disc", manifold, start, plane, axes, law, 3.0, True)


def poincare_ball() -> Portrait:
    manifold, start = PoincareBall(2), vector(0.3, -0.2)
    law = radial_law(manifold, start, 0.5, 5.0)
    return Portrait("poincare_ball", "PoincareBall(2)", manifold, start, lambda x: x, ("x", "y"), law, 3.0, True)


def so3() -> Portrait:
    manifold, start = SO3(), torch.eye(3, dtype=torch.float64)
    law = radial_law(manifold, start, 0.5, math.pi - 1e-3)
    plane = lambda x: x[..., :2, 2]  # noqa: E731
    return Portrait("so3", "SO3(): the third body axis", manifold, start, plane, ("x", "y"), law, 2.8, True)


def se3() -> Portrait:
    manifold, rotations = SE3(), SO3()
    start = torch.eye(4, dtype=torch.float64)
    law = Law(
        "angle of rotation",
        0.5,
        lambda x: rotations.dist(torch.eye(3, dtype=x.dtype).expand(len(x), 3, 3), x[:, :3, :3]),
        lambda angle: so3_log_angle_density(angle, 0.5).exp(),
        (1e-6, math.pi - 1e-3),
    )
    turn, slide = torch.zeros(2, 4, 4, dtype=torch.float64)
    turn[1, 0], turn[0, 1], slide[:2, 3] = 1.0, -1.0, vector(0.6, 0.8)
    plane = lambda x: x[..., :2, 3] + x[..., :2, 0]  # noqa: E731
    return Portrait(
        "se3",
        "SE3(): the tip of the first body axis",
        manifold,
        start,
        plane,
        ("x", "y"),
        law,
        6.0,
        tangents=(turn, slide),
    )


def spd() -> Portrait:
    manifold, start, time = SPD(2), torch.eye(2, dtype=torch.float64), 0.5
    law = Law("log determinant", time, lambda x: x.logdet(), normal_density(2 * time), (-4.0, 4.0))
    axes = ("(s11 - s22) / trace", "2 s12 / trace")

    tangents = torch.diag(vector(1, -1)) / math.sqrt(2), (1 - torch.eye(2, dtype=torch.float64)) / math.sqrt(2)

    def klein(x: Tensor) -> Tensor:
        trace = x[..., 0, 0] + x[..., 1, 1]
        return torch.stack([x[..., 0, 0] - x[..., 1, 1], 2 * x[..., 0, 1]], -1) / trace[..., None]

    return Portrait("spd", "SPD(2): the shape of the ellipse", manifold, start, klein, axes, law, 3.0, True, tangents)


def stiefel() -> Portrait:
    manifold = Stiefel(3, 2)
    start = torch.eye(3, 2, dtype=torch.float64)
    law = Law(
        "first entry, after a long time", 6.0, lambda x: x[:, 0, 0], lambda z: torch.full_like(z, 0.5), (-1.0, 1.0)
    )
    plane = lambda x: x[..., :2, 0]  # noqa: E731
    return Portrait("stiefel", "Stiefel(3, 2): the first column", manifold, start, plane, ("x", "y"), law, 4.0, True)


def product() -> Portrait:
    ball = Sphere(2)
    manifold, foot = Product([ball, Torus(1)]), vector(0.0, 0.0, 1.0)
    law = radial_law(ball, foot, 0.5, math.pi - 1e-3)
    on_sphere = Law("distance on the sphere", 0.5, lambda x: law.statistic(x[:, :3]), law.density, law.support)
    plane = lambda x: x[..., [3, 0]]  # noqa: E731
    tangents = vector(1.0, 0.0, 0.0, 0.0), vector(0.0, 0.0, 0.0, 1.0)
    start = torch.cat([foot, vector(0.0)])
    return Portrait(
        "product",
        "Product([Sphere(2), Torus(1)])",
        manifold,
        start,
        plane,
        ("angle", "x"),
        on_sphere,
        5.0,
        tangents=tangents,
    )


def half_plane() -> Portrait:
    manifold = ChartManifold(
        lambda q: torch.eye(2, dtype=q.dtype) / q[..., 1, None, None] ** 2, 2, domain=lambda q: q[..., 1] > 0
    )
    start, time, known = vector(0.0, 1.0), 0.5, Hyperboloid(2)
    origin = known.origin(3, dtype=torch.float64)

    def distance(q: Tensor) -> Tensor:
        return (1 + (q - start).square().sum(-1) / (2 * q[:, 1])).acosh()

    law = Law("distance from the start", time, distance, radial_density(known, origin, time), (1e-6, 5.0))
    return Portrait(
        "chart_manifold", "ChartManifold: the upper half plane", manifold, start, lambda q: q, ("x", "y"), law, 1.6
    )


def embedded() -> Portrait:
    """A spheroid with half axes 1, 1, 2; in the end Brownian motion is uniform with respect to its area."""
    manifold = Embedded(lambda x: x[..., 0] ** 2 + x[..., 1] ** 2 + x[..., 2] ** 2 / 4 - 1, 3)
    grid = torch.linspace(-2.0, 2.0, 4001, dtype=torch.float64)

    def girth(z: Tensor) -> Tensor:
        return (1 - 3 * z**2 / 16).sqrt()

    total = torch.trapezoid(girth(grid), grid)
    law = Law("height z, after a long time", 6.0, lambda x: x[:, 2], lambda z: girth(z) / total, (-2.0, 2.0), steps=240)
    plane = lambda x: x[..., [0, 2]]  # noqa: E731
    return Portrait(
        "embedded",
        "Embedded: a spheroid",
        manifold,
        vector(1, 0, 0),
        plane,
        ("x", "z"),
        law,
        reach=6.0,
        by_retraction=True,
    )


PORTRAITS = (
    euclidean,
    torus,
    sphere,
    hyperboloid,
    poincare_ball,
    so3,
    se3,
    spd,
    stiefel,
    product,
    half_plane,
    embedded,
)
