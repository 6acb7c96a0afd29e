r"""Product of manifolds, with points flattened into one vector."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ._functions import safe_sqrt
from .base import Manifold, PseudoRiemannian

__all__ = ["Product"]


class Product(PseudoRiemannian, Manifold):
    r"""$M_1\times M_2\times\dots$: a point is the concatenation of its parts, matrix parts flattened row by row.

    Metric, geodesics, transport, volume, Brownian motion and heat kernel are those of the parts; what one part lacks,
    the product lacks. Frames list the negative directions of all parts first, then the positive ones, in order.
    ``pack`` and ``unpack`` go between vectors (..., N) and the tuple of parts (..., *part.point_shape); ``slices`` says
    which entries are whose.

    Args:
        manifolds: the parts.
    """

    name = "Product"

    def __init__(self, manifolds: Sequence[Manifold]) -> None:
        if not manifolds:
            raise ValueError(f"manifolds={manifolds!r} is empty: give at least one manifold")
        for index, part in enumerate(manifolds):
            if not isinstance(part, Manifold):
                raise TypeError(f"manifolds[{index}]={part!r} is no manifolds.Manifold; wrap or replace it")
        sizes = [math.prod(part.point_shape) for part in manifolds]
        positive, negative = (sum(part.signature[sign] for part in manifolds) for sign in (0, 1))
        super().__init__((sum(sizes),), (positive, negative))
        self.parts: Sequence[Manifold] = torch.nn.ModuleList(manifolds)  # type: ignore[assignment]
        ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
        self.slices = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        self.reversible = all(part.reversible for part in manifolds)
        for flag in ("has_log", "has_transport", "has_kernel", "has_chart"):
            setattr(self, flag, all(getattr(part, flag) for part in manifolds))
        signs = [sign for part in manifolds for sign in [-1] * part.signature[1] + [1] * part.signature[0]]
        self._order = sorted(range(len(signs)), key=signs.__getitem__)  # columns of the parts' frames, negative first
        self._place = sorted(range(len(signs)), key=self._order.__getitem__)

    def extra_repr(self) -> str:
        """What stands in the brackets of the name."""
        return ", ".join(f"{part.name}({part.extra_repr()})" for part in self.parts)

    @property
    def log_volume(self) -> float:
        """Sum over the parts."""
        return sum(part.log_volume for part in self.parts)

    # --- vectors and parts

    def pack(self, *points: Tensor) -> Tensor:
        """One vector (..., N) of points or tangent vectors of the parts, whose batch shapes are broadcast.

        Args:
            points: one tensor (..., *part.point_shape) for each part.

        Raises:
            ValueError: the number of tensors or a shape does not fit.
        """
        if len(points) != len(self.parts):
            raise ValueError(
                f"{len(points)} tensors given, but {self!r} has {len(self.parts)} parts; give one for each"
            )
        for index, (part, point) in enumerate(zip(self.parts, points, strict=True)):
            part._assert_check_shape(point.shape, f"points[{index}]")
        return self._join(points)

    def unpack(self, x: Tensor) -> tuple[Tensor, ...]:
        """Parts (..., *part.point_shape) of points or tangent vectors (..., N).

        Args:
            x: points or tangent vectors.
        """
        split = zip(self.parts, self.slices, strict=True)
        return tuple(x[..., where].reshape(*x.shape[:-1], *part.point_shape) for part, where in split)

    def pack_point(self, *tensors: Tensor) -> Tensor:
        """Another name of `pack`, geoopt's."""
        return self.pack(*tensors)

    def unpack_tensor(self, tensor: Tensor) -> tuple[Tensor, ...]:
        """Another name of `unpack`, geoopt's."""
        return self.unpack(tensor)

    def _join(self, points: Sequence[Tensor]) -> Tensor:
        flat = [point.flatten(-part.ndim) for part, point in zip(self.parts, points, strict=True)]
        batch = torch.broadcast_shapes(*[point.shape[:-1] for point in flat])
        return torch.cat([point.expand(*batch, point.shape[-1]) for point in flat], dim=-1)

    def _each(self, method: str, *arguments: Tensor) -> list[Tensor]:
        """Call a method of every part on its share of the arguments."""
        shares = zip(*[self.unpack(argument) for argument in arguments], strict=True)
        return [getattr(part, method)(*share) for part, share in zip(self.parts, shares, strict=True)]

    def _total(self, scalars: Sequence[Tensor], keepdim: bool = False) -> Tensor:
        total = sum(scalars[1:], start=scalars[0])
        return total[..., None] if keepdim else total

    # --- geoopt's names

    def projx(self, x: Tensor) -> Tensor:
        return self._join(self._each("projx", x))

    def proju(self, x: Tensor, u: Tensor) -> Tensor:
        return self._join(self._each("proju", x, u))

    def inner(self, x: Tensor, u: Tensor, v: Tensor | None = None, *, keepdim: bool = False) -> Tensor:
        return self._total(self._each("inner", x, u, u if v is None else v), keepdim)

    def component_inner(self, x: Tensor, u: Tensor, v: Tensor | None = None) -> Tensor:
        """Inner product of each part, repeated over its entries (..., N): optimisers adapt part by part."""
        inners = self._each("inner", x, u, u if v is None else v)
        sizes = [where.stop - where.start for where in self.slices]
        return torch.cat([inner[..., None].expand(*inner.shape, n) for inner, n in zip(inners, sizes, strict=True)], -1)

    def expmap(self, x: Tensor, u: Tensor) -> Tensor:
        return self._join(self._each("expmap", x, u))

    def geodesic_flow(self, x: Tensor, v: Tensor, t: float | Tensor = 1.0) -> tuple[Tensor, Tensor]:
        shares = zip(self.parts, self.unpack(x), self.unpack(v), strict=True)
        flows = [part.geodesic_flow(point, velocity, t) for part, point, velocity in shares]
        points, velocities = zip(*flows, strict=True)
        return self._join(points), self._join(velocities)

    def retr(self, x: Tensor, u: Tensor) -> Tensor:
        return self._join(self._each("retr", x, u))

    def logmap(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.has_log:
            return super().logmap(x, y)
        return self._join(self._each("logmap", x, y))

    def dist2(self, x: Tensor, y: Tensor, *, keepdim: bool = False) -> Tensor:
        r"""Sum of the parts' squared distances; with an indefinite metric, $|\langle\log,\log\rangle|$."""
        if self.is_riemannian and self.has_log:
            return self._total(self._each("dist2", x, y), keepdim)
        return super().dist2(x, y, keepdim=keepdim)

    def dist(self, x: Tensor, y: Tensor, *, keepdim: bool = False) -> Tensor:
        """Square root of `dist2`, with zero gradient where x and y coincide."""
        return safe_sqrt(self.dist2(x, y, keepdim=keepdim))

    def random_uniform(
        self,
        *size: int | tuple[int, ...],
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Points of shape ``size`` = (..., N) with independent uniform parts; every part must be compact."""
        if math.isinf(self.log_volume):
            return super().random_uniform(*size)
        batch = self._size(*size)[:-1]
        draw: dict[str, Any] = {"dtype": dtype, "device": device, "generator": generator}
        return self._join([part.random_uniform(*batch, *part.point_shape, **draw) for part in self.parts])

    def origin(
        self,
        *size: int | tuple[int, ...],
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        seed: int | None = None,
    ) -> Tensor:
        batch = self._size(*size)[:-1]
        return self._join([part.origin(*batch, *part.point_shape, dtype=dtype, device=device) for part in self.parts])

    def _first_failure(self, method: str, *arguments: Tensor, atol: float, rtol: float) -> tuple[bool, str | None]:
        shares = zip(*[self.unpack(argument) for argument in arguments], strict=True)
        for index, (part, share) in enumerate(zip(self.parts, shares, strict=True)):
            ok, reason = getattr(part, method)(*share, atol=atol, rtol=rtol)
            if not ok:
                return False, f"part {index}, {part!r}, entries {self.slices[index]}: {reason}"
        return True, None

    def _check_point_on_manifold(self, x: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5) -> tuple[bool, str | None]:
        return self._first_failure("_check_point_on_manifold", x, atol=atol, rtol=rtol)

    def _check_vector_on_tangent(
        self, x: Tensor, u: Tensor, *, atol: float = 1e-5, rtol: float = 1e-5
    ) -> tuple[bool, str | None]:
        return self._first_failure("_check_vector_on_tangent", x, u, atol=atol, rtol=rtol)

    # --- metric and frames

    def frame(self, x: Tensor) -> Tensor:
        shares = zip(self.parts, self._each("frame", x), strict=True)
        blocks = [frame.flatten(-part.ndim - 1, -2) for part, frame in shares]
        return _block_diagonal(blocks)[..., self._order]

    def combine(self, x: Tensor, components: Tensor) -> Tensor:
        shares = components[..., self._place].split([part.dim for part in self.parts], dim=-1)
        triples = zip(self.parts, self.unpack(x), shares, strict=True)
        return self._join([part.combine(point, share) for part, point, share in triples])

    def components(self, x: Tensor, v: Tensor) -> Tensor:
        return torch.cat(_broadcast_batches(self._each("components", x, v), 1), dim=-1)[..., self._order]

    def metric(self, x: Tensor) -> Tensor:
        return _block_diagonal(self._each("metric", x)) if self.has_chart else super().metric(x)

    def cometric(self, x: Tensor) -> Tensor:
        return _block_diagonal(self._each("cometric", x)) if self.has_chart else super().cometric(x)

    def christoffel(self, x: Tensor) -> Tensor:
        if not self.has_chart:
            return super().christoffel(x)
        result = x.new_zeros(*x.shape[:-1], self.dim, self.dim, self.dim)
        for where, block in zip(self.slices, self._each("christoffel", x), strict=True):
            result = result + torch.nn.functional.pad(block, [where.start, self.dim - where.stop] * 3)
        return result

    def lower(self, x: Tensor, v: Tensor) -> Tensor:
        return self._join(self._each("lower", x, v))

    def raise_(self, x: Tensor, p: Tensor) -> Tensor:
        return self._join(self._each("raise_", x, p))

    def parallel_transport(self, x: Tensor, y: Tensor, v: Tensor) -> Tensor:
        if not self.has_transport:
            return super().parallel_transport(x, y, v)
        return self._join(self._each("parallel_transport", x, y, v))

    # --- volume, randomness, heat

    def log_volume_density(self, x: Tensor) -> Tensor:
        return self._total(self._each("log_volume_density", x))

    def exp_logdet(self, x: Tensor, v: Tensor) -> Tensor:
        return self._total(self._each("exp_logdet", x, v))

    def log_heat_kernel(self, x: Tensor, y: Tensor, t: float | Tensor) -> Tensor:
        """Sum of the parts' log kernels at the same time."""
        if not self.has_kernel:
            return super().log_heat_kernel(x, y, t)
        shares = zip(self.parts, self.unpack(x), self.unpack(y), strict=True)
        return self._total([part.log_heat_kernel(start, end, t) for part, start, end in shares])


def _broadcast_batches(tensors: Sequence[Tensor], kept: int) -> list[Tensor]:
    """Expand all but the last ``kept`` axes to a common shape."""
    batch = torch.broadcast_shapes(*[tensor.shape[: tensor.dim() - kept] for tensor in tensors])
    return [tensor.expand(*batch, *tensor.shape[tensor.dim() - kept :]) for tensor in tensors]


def _block_diagonal(blocks: Sequence[Tensor]) -> Tensor:
    """Block-diagonal matrices (..., R, C) of blocks (..., r_i, c_i)."""
    blocks = _broadcast_batches(blocks, 2)
    total, before, rows = sum(block.shape[-1] for block in blocks), 0, []
    for block in blocks:
        width = block.shape[-1]
        rows.append(torch.nn.functional.pad(block, (before, total - before - width)))
        before += width
    return torch.cat(rows, dim=-2)
