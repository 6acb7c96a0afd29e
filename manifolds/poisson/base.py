r"""What a Poisson structure is: a skew matrix $J(z)$ whose bracket $\{f,g\} = \nabla f\cdot J\nabla g$ obeys Jacobi.

Signs: $\dot z = J(z)\nabla H(z)$; canonical $J = \begin{pmatrix}0&I\\-I&0\end{pmatrix}$ on $z = (q, p)$.
Source: Marsden & Ratiu, "Introduction to Mechanics and Symmetry", 1999, chapter 10.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .._forward_mode import directional_derivative

__all__ = ["PoissonStructure", "RowFunction", "derivative", "gradient"]

RowFunction = Callable[[Tensor], Tensor]
"""A function of states, row by row: (..., n) -> (...)."""


def gradient(function: RowFunction, z: Float[Tensor, "... n"]) -> Float[Tensor, "... n"]:
    r"""$\nabla f(z)$ of a row-wise function; differentiable again, and usable under ``no_grad`` and ``vmap``.

    Raises:
        ValueError: ``function`` does not return one number per row.
    """
    return torch.func.grad(functools.partial(_total, function))(z)


def _total(function: RowFunction, x: Tensor) -> Tensor:
    """The sum over rows, whose gradient is each row's own."""
    values = function(x)
    if values.shape != x.shape[:-1]:
        raise ValueError(
            f"function returned shape {tuple(values.shape)} for states of shape {tuple(x.shape)}: "
            f"return one number per row, shape {tuple(x.shape[:-1])}"
        )
    return values.sum()


def derivative(function: Callable[[Tensor], Tensor], z: Float[Tensor, "... n"]) -> Tensor:
    r"""$\partial_l F(z)$ of a row-wise $F$: (..., n) -> (..., \*out) by forward mode, as (..., \*out, n)."""

    def along(direction: Tensor) -> Tensor:
        return directional_derivative(function, z, direction.expand_as(z))

    basis = torch.eye(z.shape[-1], dtype=z.dtype, device=z.device)
    return torch.func.vmap(along, out_dims=-1)(basis)


class PoissonStructure(nn.Module, ABC):
    r"""A Poisson structure on $\mathbb R^n$ (or a part of it), batched over leading axes of the state (..., n).

    Own structures implement `bivector` (row-wise, in torch) and say what is known of them by the arguments below; put
    them through `manifolds.testing.assert_poisson_laws`. `sharp` may be overridden by a form without the matrix.

    Args:
        dim: n, coordinates of a state.
        rank: rank of $J$ at a generic point.
        guarantees_jacobi: whether the Jacobi identity holds by construction, so that this is a Poisson structure
            and not merely a skew matrix.
        has_reference_density: whether a density preserved by every Hamiltonian flow is known.
    """

    def __init__(
        self, dim: int, rank: int, *, guarantees_jacobi: bool = True, has_reference_density: bool = True
    ) -> None:
        super().__init__()
        self.dim = dim
        self.rank = rank
        self.guarantees_jacobi = guarantees_jacobi
        self.has_reference_density = has_reference_density

    def extra_repr(self) -> str:
        """Dimension and rank, for ``repr``."""
        return f"dim={self.dim}, rank={self.rank}"

    @abstractmethod
    def bivector(self, z: Float[Tensor, "... n"]) -> Float[Tensor, "... n n"]:
        """The skew matrix $J(z)$."""

    def sharp(self, z: Float[Tensor, "... n"], dH: Float[Tensor, "... n"]) -> Float[Tensor, "... n"]:
        r"""The vector $J(z)\,dH$ of a covector `dH`.

        Raises:
            ValueError: `z` or `dH` does not end in n coordinates.
            TypeError: `z` is not floating point, or `dH` has another dtype.
        """
        self._check(z, dH)
        return torch.einsum("...ij,...j->...i", self.bivector(z), dH)

    def bracket(self, f: RowFunction, g: RowFunction) -> RowFunction:
        r"""The function $\{f,g\}(z) = \nabla f\cdot J\nabla g$; $\dot f = \{f,H\}$ along the flow of H."""

        def bracket_at(z: Tensor) -> Tensor:
            return (gradient(f, z) * self.sharp(z, gradient(g, z))).sum(-1)

        return bracket_at

    def hamiltonian_field(self, hamiltonian: RowFunction) -> Callable[[Tensor], Tensor]:
        r"""The vector field $z \mapsto J(z)\nabla H(z)$."""

        def field_at(z: Tensor) -> Tensor:
            return self.sharp(z, gradient(hamiltonian, z))

        return field_at

    def casimirs(self, z: Float[Tensor, "... n"]) -> Float[Tensor, "... k"]:
        r"""Known functions with $J\nabla C = 0$, which no Hamiltonian flow changes; (..., 0) where none is known."""
        self._check(z)
        return z[..., :0]

    def jacobiator(self, z: Float[Tensor, "... n"]) -> Float[Tensor, "... n n n"]:
        r"""$A_{ijk} = \sum_l J_{il}\partial_l J_{jk} + J_{jl}\partial_l J_{ki} + J_{kl}\partial_l J_{ij}$.

        Zero for a Poisson structure. For large n use `contracted_jacobiator`.
        """
        term = torch.einsum("...il,...jkl->...ijk", self.bivector(z), derivative(self.bivector, z))
        return term + torch.einsum("...jki->...ijk", term) + torch.einsum("...kij->...ijk", term)

    def contracted_jacobiator(
        self,
        z: Float[Tensor, "... n"],
        a: Float[Tensor, "... n"],
        b: Float[Tensor, "... n"],
        c: Float[Tensor, "... n"],
    ) -> Float[Tensor, "..."]:
        r"""$\sum_{ijk} A_{ijk} a_i b_j c_k$ without the tensor A: three directional derivatives.

        Its mean square over random covectors is a penalty for structures that are learned freely.
        """

        def cyclic_term(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
            def component(x: Tensor) -> Tensor:
                return (second * self.sharp(x, third.expand_as(x))).sum(-1)

            return directional_derivative(component, z, -self.sharp(z, first.expand_as(z)))

        return cyclic_term(a, b, c) + cyclic_term(b, c, a) + cyclic_term(c, a, b)

    def reference_log_density(self, z: Float[Tensor, "... n"]) -> Float[Tensor, "..."]:
        r"""$\log\mu$ of a density with $\sum_i\partial_i(\mu J_{ij}) = 0$: $e^{-\beta H}\mu\,dz$ is invariant.

        Zero unless a structure says otherwise; a density is unique only up to a function of the Casimirs.

        Raises:
            ValueError: no such density is known (`has_reference_density` is False).
        """
        self._check(z)
        if not self.has_reference_density:
            raise ValueError(
                f"{type(self).__name__} has no known density that Hamiltonian flows preserve, so e^(-H) cannot be "
                "made stationary: use a unimodular structure (DarbouxPoisson where it is learned)"
            )
        return 0.0 * z.sum(-1)

    def _check(self, z: Tensor, covector: Tensor | None = None) -> None:
        """Refuse states and covectors of another size or dtype; reads no values."""
        if not z.is_floating_point():
            raise TypeError(f"z has dtype {z.dtype}: give floating-point states, z.double() for example")
        given = {"z": z} if covector is None else {"z": z, "dH": covector}
        for name, value in given.items():
            if not value.dim() or value.shape[-1] != self.dim:
                raise ValueError(
                    f"{name} has shape {tuple(value.shape)}; its last axis must hold the {self.dim} coordinates of "
                    f"{type(self).__name__}"
                )
        parameter = next(self.parameters(), z)
        if parameter.dtype != z.dtype:
            raise TypeError(
                f"z has dtype {z.dtype} and {type(self).__name__} parameters of {parameter.dtype}: convert one of them"
            )
        if covector is not None and covector.dtype != z.dtype:
            raise TypeError(f"dH has dtype {covector.dtype} and z {z.dtype}: convert one of them")
