r"""Rotations SO(3) and rigid motions SE(3) of three-dimensional space, as matrix manifolds.

Metric of SO(3): $|R\hat\omega|=|\omega|$, bi-invariant, so that a rotation by the angle $\theta$ lies $\theta$ away and
the volume is $8\pi^2$. Metric of SE(3): $|\omega|^2+|v|^2$ of the body twist, which is left-invariant *and* the product
of SO(3) and R^3, since $|Rv|=|v|$ (Park, J. Mech. Des. 117, 1995); its geodesics turn and slide independently, they
are not screws.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ._functions import generalized_sinc, safe_sqrt, standard_normal
from ._matrices import check_body_skew, check_orthonormal, eye_like, polish, skew
from ._rotation_functions import (
    deviation_angle,
    deviation_angle2,
    deviation_log,
    hat,
    matrix_to_quaternion,
    nearest_rotation,
    quaternion_to_matrix,
    rotation_dexp,
    rotation_dexp_inverse,
    rotation_exp,
    vee,
)
from .base import Manifold
from .heat import so3_log_kernel

__all__ = ["SE3", "SO3", "hat", "matrix_to_quaternion", "quaternion_to_matrix", "vee"]

Size = int | tuple[int, ...]


class SO3(Manifold):
    r"""Rotations R (..., 3, 3) with the bi-invariant metric $\langle R\hat\omega,R\hat\xi\rangle=\omega\cdot\xi$.

    The frame at R is $R\hat e_1,R\hat e_2,R\hat e_3$, so components of a tangent vector are its body angular velocity.
    A half turn has no single logarithm (NaN; `assert_logmap` raises), though it has a distance, $\pi$.
    """

    name = "SO3"
    reversible = True
    has_log = True
    has_transport = True
    has_kernel = True
    log_volume = math.log(8 * math.pi**2)

    def __init__(self) -> None:
        super().__init__((3, 3), (3, 0))

    # --- the group, on rotation vectors (..., 3)

    @staticmethod
    def exp(omega: Tensor) -> Tensor:
        """Rotation (..., 3, 3) about omega (..., 3) by the angle |omega|."""
        return rotation_exp(omega)

    @staticmethod
    def log(rotation: Tensor) -> Tensor:
        """Rotation vector (..., 3), shorter than pi, of a rotation (..., 3, 3); NaN for half turns."""
        return deviation_log(rotation - eye_like(rotation))

    @staticmethod
    def dexp(omega: Tensor) -> Tensor:
        """Matrix D (..., 3, 3) with exp(omega + e v) = exp(omega) exp(e D v) to first order in e (left-trivialised)."""
        return rotation_dexp(omega)

    @staticmethod
    def dexp_inverse(omega: Tensor) -> Tensor:
        """Inverse of `dexp` (..., 3, 3), for omega (..., 3) shorter than two pi."""
        return rotation_dexp_inverse(omega)

    # --- geoopt's names

    def projx(self, x: Tensor) -> Tensor:
        """Nearest rotation (..., 3, 3), never a reflection."""
        return nearest_rotation(x)

    def proju(self, x: Tensor, u: Tensor) -> Tensor:
        return x @ skew(x.mT @ u)

    def inner(self, x: Tensor, u: Tensor, v: Tensor | None = None, *, keepdim: bool = False) -> Tensor:
        product = u * (u if v is None else v) / 2
        return self._sum(product.expand(torch.broadcast_shapes(x.shape, product.shape)), keepdim)

    def expmap(self, x: Tensor, u: Tensor) -> Tensor:
        """Rotation that x becomes by turning at body angular velocity vee(x^T u) for unit time; stays orthogonal."""
        return polish(x @ rotation_exp(vee(x.mT @ u)))

    def geodesic_flow(self, x: Tensor, v: Tensor, t: float | Tensor = 1.0) -> tuple[Tensor, Tensor]:
        velocity = vee(x.mT @ v)
        y = polish(x @ rotation_exp(velocity * (t[..., None] if isinstance(t, Tensor) else t)))
        return y, y @ hat(velocity)

    def logmap(self, x: Tensor, y: Tensor) -> Tensor:
        return x @ hat(deviation_log(x.mT @ (y - x)))

    def dist(self, x: Tensor, y: Tensor, *, keepdim: bool = False) -> Tensor:
        """Angle in [0, pi] of the rotation that takes x to y; zero gradient where they coincide."""
        angle = deviation_angle(x.mT @ (y - x))
        return self._expand(angle) if keepdim else angle

    def dist2(self, x: Tensor, y: Tensor, *, keepdim: bool = False) -> Tensor:
        """Squared angle; smooth where x and y coincide."""
        angle2 = deviation_angle2(x.mT @ (y - x))
        return self._expand(angle2) if keepdim else angle2

    def random_uniform(
        self,
        *size: Size,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Haar-distributed rotations of shape ``size`` = (..., 3, 3): normalised Gaussian quaternions."""
        like = torch.empty(0, dtype=dtype, device=device)
        shape = (*self._size(*size)[:-2], 4)
        return quaternion_to_matrix(standard_normal(shape, dtype=like.dtype, device=like.device, generator=generator))

    def origin(
        self,
        *size: Size,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        seed: int | None = None,
    ) -> Tensor:
        """The identity, repeated to shape ``size`` = (..., 3, 3)."""
        return torch.eye(3, dtype=dtype, device=device).expand(self._size(*size)).clone()

    def _check_point_on_manifold(self, x: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5) -> tuple[bool, str | None]:
        ok, reason = check_orthonormal(x, atol, rtol)
        if not ok:
            return ok, reason
        if (torch.linalg.det(x) < 0).any():
            return False, "det x = -1: x holds a reflection, not a rotation; use projx"
        return True, None

    def _check_vector_on_tangent(
        self, x: Tensor, u: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5
    ) -> tuple[bool, str | None]:
        return check_body_skew(x, u, atol, rtol)

    # --- metric, frames, volume, heat

    def lower(self, x: Tensor, v: Tensor) -> Tensor:
        """Covector v/2: the metric is half the Frobenius product."""
        return v / 2

    def raise_(self, x: Tensor, p: Tensor) -> Tensor:
        """Tangent vector of a covector: twice the projection."""
        return 2 * self.proju(x, p)

    def frame(self, x: Tensor) -> Tensor:
        r"""$R\hat e_a$ (..., 3, 3, 3), last axis a."""
        return torch.einsum("...ij,ajk->...ika", x, hat(eye_like(x)))

    def combine(self, x: Tensor, components: Tensor) -> Tensor:
        r"""Tangent vector $R\hat\omega$ of body angular velocities (..., 3)."""
        return x @ hat(components)

    def components(self, x: Tensor, v: Tensor) -> Tensor:
        """Body angular velocities (..., 3) of tangent vectors."""
        return vee(x.mT @ v)

    def parallel_transport(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        r"""Half the adjoint: body components $\xi\mapsto\exp(-\hat\omega/2)\,\xi$, with $\omega$ the log of x^T y."""
        half = rotation_exp(-deviation_log(x.mT @ (y - x)) / 2)
        return y @ hat((half @ vee(x.mT @ v)[..., None])[..., 0])

    def exp_logdet(self, x: Tensor, v: Tensor) -> Tensor:
        r"""$2\log|\sin(\theta/2)/(\theta/2)|$, as on the three-sphere of radius 2 that covers SO(3)."""
        return 2 * generalized_sinc(self.inner(x, v) / 4).abs().log()

    def log_heat_kernel(self, x: Tensor, y: Tensor, t: float | Tensor) -> Tensor:
        """Log density of the isotropic Gaussian on SO(3), IGSO(3); see `manifolds.heat.so3_log_kernel`."""
        angle = (self.dist2(x, y) + 1e-16).sqrt()  # has two derivatives where x and y coincide, unlike dist
        return so3_log_kernel(angle, t)


class SE3(Manifold):
    r"""Rigid motions [[R, p], [0, 1]] (..., 4, 4) with metric $|\omega|^2+|v|^2$ of the body twist.

    Tangent vectors are [[R hat(omega), R v], [0, 0]]. Geodesics: R turns at constant body angular velocity while p
    moves on a straight line. The frame is the body's: three rotations, then three translations along its axes.
    """

    name = "SE3"
    reversible = True
    has_log = True
    has_transport = True
    has_kernel = True

    def __init__(self) -> None:
        super().__init__((4, 4), (6, 0))
        self.rotations = SO3()

    @staticmethod
    def pack(rotation: Tensor, translation: Tensor) -> Tensor:
        """Homogeneous matrices (..., 4, 4) of rotations (..., 3, 3) and translations (..., 3)."""
        corner = torch.diag(rotation.new_tensor([0.0, 0.0, 0.0, 1.0]))
        return SE3._tangent(rotation, translation) + corner

    @staticmethod
    def unpack(x: Tensor) -> tuple[Tensor, Tensor]:
        """Upper blocks of points or tangent vectors (..., 4, 4): (..., 3, 3) and (..., 3)."""
        return x[..., :3, :3], x[..., :3, 3]

    @staticmethod
    def _tangent(turn: Tensor, slide: Tensor) -> Tensor:
        """Tangent vectors (..., 4, 4) of blocks (..., 3, 3) and (..., 3)."""
        batch = torch.broadcast_shapes(turn.shape[:-2], slide.shape[:-1])
        top = torch.cat([turn.expand(*batch, 3, 3), slide.expand(*batch, 3)[..., None]], dim=-1)
        return torch.nn.functional.pad(top, (0, 0, 0, 1))

    def projx(self, x: Tensor) -> Tensor:
        """Nearest rigid motion: rotation block projected, last row (0, 0, 0, 1)."""
        rotation, translation = self.unpack(x)
        return self.pack(nearest_rotation(rotation), translation)

    def proju(self, x: Tensor, u: Tensor) -> Tensor:
        turn, slide = self.unpack(u)
        return self._tangent(self.rotations.proju(self.unpack(x)[0], turn), slide)

    def inner(self, x: Tensor, u: Tensor, v: Tensor | None = None, *, keepdim: bool = False) -> Tensor:
        product = self.lower(x, u) * (u if v is None else v)
        return self._sum(product.expand(torch.broadcast_shapes(x.shape, product.shape)), keepdim)

    def expmap(self, x: Tensor, u: Tensor) -> Tensor:
        (rotation, translation), (turn, slide) = self.unpack(x), self.unpack(u)
        return self.pack(self.rotations.expmap(rotation, turn), translation + slide)

    def logmap(self, x: Tensor, y: Tensor) -> Tensor:
        (rotation, translation), (target, goal) = self.unpack(x), self.unpack(y)
        return self._tangent(self.rotations.logmap(rotation, target), goal - translation)

    def dist2(self, x: Tensor, y: Tensor, *, keepdim: bool = False) -> Tensor:
        """Squared angle plus squared distance of the translations."""
        (rotation, translation), (target, goal) = self.unpack(x), self.unpack(y)
        total = self.rotations.dist2(rotation, target) + ((goal - translation) ** 2).sum(-1)
        return self._expand(total) if keepdim else total

    def dist(self, x: Tensor, y: Tensor, *, keepdim: bool = False) -> Tensor:
        """Length of the geodesic; it exists at half turns too, where the logarithm does not."""
        return safe_sqrt(self.dist2(x, y, keepdim=keepdim))

    def origin(
        self,
        *size: Size,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        seed: int | None = None,
    ) -> Tensor:
        """The identity, repeated to shape ``size`` = (..., 4, 4)."""
        return torch.eye(4, dtype=dtype, device=device).expand(self._size(*size)).clone()

    def _check_point_on_manifold(self, x: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5) -> tuple[bool, str | None]:
        if not torch.allclose(x[..., 3, :], eye_like(x)[3], atol=atol, rtol=rtol):
            return False, f"the last row of x is not (0, 0, 0, 1) but e.g. {x[..., 3, :].reshape(-1, 4)[0].tolist()}"
        return self.rotations._check_point_on_manifold(self.unpack(x)[0], atol=atol, rtol=rtol)

    def _check_vector_on_tangent(
        self, x: Tensor, u: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5
    ) -> tuple[bool, str | None]:
        if not torch.allclose(u[..., 3, :], torch.zeros_like(u[..., 3, :]), atol=atol, rtol=rtol):
            return False, f"the last row of u is not zero: it reaches {float(u[..., 3, :].abs().max()):.3g}; use proju"
        return check_body_skew(self.unpack(x)[0], self.unpack(u)[0], atol, rtol)

    def lower(self, x: Tensor, v: Tensor) -> Tensor:
        """Covector: the rotation block halved."""
        return v * v.new_tensor([0.5, 0.5, 0.5, 1.0])

    def raise_(self, x: Tensor, p: Tensor) -> Tensor:
        """Tangent vector of a covector: its projection with the rotation block doubled."""
        return self.proju(x, p) * p.new_tensor([2.0, 2.0, 2.0, 1.0])

    def frame(self, x: Tensor) -> Tensor:
        r"""Body frame (..., 4, 4, 6): $R\hat e_a$, then $R e_a$."""
        units = eye_like(x, 3)
        zeros = torch.zeros_like(units)
        twists = self._tangent(hat(torch.cat([units, zeros])), torch.cat([zeros, units]))
        return torch.einsum("...ij,ajk->...ika", x, twists)

    def parallel_transport(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        (rotation, _), (target, _), (turn, slide) = self.unpack(x), self.unpack(y), self.unpack(v)
        return self._tangent(self.rotations.parallel_transport(rotation, target, turn), slide)

    def exp_logdet(self, x: Tensor, v: Tensor) -> Tensor:
        """That of the rotation; space is flat."""
        return self.rotations.exp_logdet(self.unpack(x)[0], self.unpack(v)[0])

    def log_heat_kernel(self, x: Tensor, y: Tensor, t: float | Tensor) -> Tensor:
        """Sum of the kernels of SO(3) and of R^3."""
        (rotation, translation), (target, goal) = self.unpack(x), self.unpack(y)
        time = torch.as_tensor(t, dtype=x.dtype, device=x.device)
        flat = -((goal - translation) ** 2).sum(-1) / (2 * time) - 1.5 * (2 * math.pi * time).log()
        return self.rotations.log_heat_kernel(rotation, target, t) + flat
