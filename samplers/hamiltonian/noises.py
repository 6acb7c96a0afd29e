r"""Noises: what an environment adds to $\dot z=J\nabla H$. All are Stratonovich-consistent.

$dz=\big(J\nabla H+b(z)\big)dt+\sum_kG_k(z)\circ dW^k$; a noise gives b, and $G(z)w$ for increments w.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ._scalars import Number, setting, sqrt
from .gradient import Energy, Time, gradient, takes_time
from .system import HamiltonianSystem, Noise

__all__ = ["HamiltonianNoise", "LangevinBath", "LiePoissonBath"]


class HamiltonianNoise(Noise):
    r"""$dz=X_Hdt+\sum_kX_{H_k}\circ dW^k$, noise through further Hamiltonians.

    Its flow is symplectic (Poisson) for every path, keeps Casimirs and the Liouville measure, and keeps H exactly where
    $\{H,H_k\}=0$. It does not thermalise.

    Args:
        hamiltonians: $H_k$, row-wise (B, n) -> (B,), or (z, t) -> (B,).

    Raises:
        ValueError: none are given.

    Source: Bismut, "Mécanique aléatoire", 1981; Lázaro-Camí & Ortega, Rep. Math. Phys. 61, 2008.
    """

    def __init__(self, hamiltonians: Sequence[Energy]) -> None:
        super().__init__()
        if callable(hamiltonians):
            hamiltonians = [hamiltonians]
        self.hamiltonians = list(hamiltonians)
        if not self.hamiltonians:
            raise ValueError("hamiltonians is empty: give at least one, or no noise")
        self.modules_among = nn.ModuleList(h for h in self.hamiltonians if isinstance(h, nn.Module))
        self._takes_time = [takes_time(h) for h in self.hamiltonians]

    def size(self, system: HamiltonianSystem) -> int:
        return len(self.hamiltonians)

    def drift(self, system: HamiltonianSystem, z: Tensor, dH: Tensor, t: Time | None) -> Tensor:
        return torch.zeros_like(z)

    def diffuse(self, system: HamiltonianSystem, z: Tensor, w: Tensor, t: Time | None) -> Tensor:
        return system.sharp(z, self.covector(z, w, t))

    def covector(self, z: Tensor, w: Tensor, t: Time | None) -> Tensor:
        r"""$\sum_kw_k\nabla H_k$ (B, n)."""
        slopes = [
            gradient(h, z, t if timed else None) for h, timed in zip(self.hamiltonians, self._takes_time, strict=True)
        ]
        return torch.stack([w[:, k, None] * slope for k, slope in enumerate(slopes)]).sum(0)


class LangevinBath(Noise):
    r"""Heat bath on $T^*Q$: $dp=\dots-\gamma M\,\partial_pH\,dt+\sqrt{2\gamma kT}\,M^{1/2}dW$, underdamped Langevin.

    With $H=\tfrac12p^{\mathsf T}M^{-1}p+V$, $M=m\,g(q)$, friction is $-\gamma p$. The law
    $e^{-H/kT}dq\,dp$ is invariant for every H. (The noise depends on q only: Itô and Stratonovich agree.)

    Args:
        friction: the rate $\gamma\ge0$ (1/time), a number or a tensor that broadcasts over momenta.
        temperature: $kT\ge0$ in units of energy.

    Raises:
        ValueError: a setting is negative or not finite.
    """

    friction: Number
    temperature: Number

    def __init__(self, friction: Number, temperature: Number) -> None:
        super().__init__()
        setting(self, "friction", friction)
        setting(self, "temperature", temperature)

    def size(self, system: HamiltonianSystem) -> int:
        split = system.split
        return system.state_size // 2 if split is None else split.momentum_size(system.state_size)

    def drift(self, system: HamiltonianSystem, z: Tensor, dH: Tensor, t: Time | None) -> Tensor:
        split = system.split
        if split is None:
            velocity = dH.chunk(2, dim=-1)[1]
            return torch.cat([torch.zeros_like(velocity), -self.friction * velocity], dim=-1)
        q, p = split.unpack(z)
        masses = split.masses()
        momentum = split.velocity(q, p) if masses is None else p
        return split.pack(torch.zeros_like(q), -self.friction * momentum)

    def diffuse(self, system: HamiltonianSystem, z: Tensor, w: Tensor, t: Time | None) -> Tensor:
        strength = sqrt(2 * self.friction * self.temperature)
        split = system.split
        if split is None:
            return torch.cat([torch.zeros_like(w), strength * w], dim=-1)
        q, _ = split.unpack(z)
        masses = split.masses()
        root_mass = 1.0 if masses is None else masses**0.5
        return split.pack(torch.zeros_like(q), strength * root_mass * split.momentum_noise(q, w))

    def refusal(self, system: HamiltonianSystem) -> str | None:
        if not system.has_momenta:
            return "LangevinBath needs momenta: a canonical structure, Separable or Mechanical"
        manifold = getattr(system.hamiltonian, "manifold", None)
        if manifold is not None and not manifold.is_riemannian:
            return f"the kinetic energy on {manifold!r} is indefinite: e^(-H/kT) is no law; use MassShellNoise"
        return None


class LiePoissonBath(Noise):
    r"""Heat bath that keeps Casimirs: $dz=\dots+\alpha J(J\nabla H)dt+\sqrt{2\alpha kT}\,J\circ dW$.

    On so(3)* this is the stochastic Landau-Lifshitz equation,
    $d\Pi=\Pi\times\nabla H\,dt+\alpha\,\Pi\times(\Pi\times\nabla H)\,dt+\sqrt{2\alpha kT}\,\Pi\times\circ\,dW$,
    whose law $e^{-H/kT}$ with respect to the area of each sphere $|\Pi|=$ const is
    invariant. A product of so(3)* is a system of spins.

    Args:
        strength: $\alpha\ge0$.
        temperature: $kT\ge0$ in units of energy.

    Raises:
        ValueError: a setting is negative or not finite.
    """

    strength: Number
    temperature: Number

    def __init__(self, strength: Number, temperature: Number) -> None:
        super().__init__()
        setting(self, "strength", strength)
        setting(self, "temperature", temperature)

    def size(self, system: HamiltonianSystem) -> int:
        return system.state_size

    def drift(self, system: HamiltonianSystem, z: Tensor, dH: Tensor, t: Time | None) -> Tensor:
        return self.strength * system.sharp(z, system.sharp(z, dH))

    def diffuse(self, system: HamiltonianSystem, z: Tensor, w: Tensor, t: Time | None) -> Tensor:
        return sqrt(2 * self.strength * self.temperature) * system.sharp(z, w)

    def refusal(self, system: HamiltonianSystem) -> str | None:
        if system.structure is None or system.is_canonical:
            return "LiePoissonBath needs a Lie-Poisson structure: LiePoisson('so3') or a ProductPoisson of them"
        if not system.structure.has_reference_density:
            return f"{system.structure!r} keeps no known density, so that no law is known to be invariant"
        return None
