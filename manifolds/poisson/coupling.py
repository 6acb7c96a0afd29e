"""An invertible network of affine couplings: new coordinates whose inverse and volume are closed forms."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

__all__ = ["CouplingNetwork"]


class CouplingNetwork(nn.Module):
    r"""A diffeomorphism $\phi$ of $\mathbb R^n$ from affine couplings.

    In turn one half b of the coordinates becomes $b\,e^{s(a)} + t(a)$, a function of the other half a;
    $s = \tanh(\cdot)$ bounds each stretch to $[1/e, e]$. All parts are smooth.

    Args:
        dim: n, at least 2.
        hidden: width of the networks of the couplings.
        depth: number of couplings; 4 lets every coordinate depend on every other.

    Raises:
        ValueError: `dim` is below 2.

    Source: Dinh, Sohl-Dickstein & Bengio, "Density estimation using Real NVP", ICLR 2017.
    """

    def __init__(self, dim: int, hidden: int = 32, depth: int = 4) -> None:
        super().__init__()
        if dim < 2:
            raise ValueError(f"dim={dim}: couplings need at least 2 coordinates")
        self.first_size = dim // 2
        sizes = [
            (self.first_size, dim - self.first_size) if layer % 2 == 0 else (dim - self.first_size, self.first_size)
            for layer in range(depth)
        ]
        self.networks = nn.ModuleList(
            nn.Sequential(nn.Linear(given, hidden), nn.Tanh(), nn.Linear(hidden, 2 * moved)) for given, moved in sizes
        )

    def forward(self, z: Float[Tensor, "... n"]) -> Float[Tensor, "... n"]:
        r"""$\phi(z)$."""
        return self._map(z)[0]

    def log_det(self, z: Float[Tensor, "... n"]) -> Float[Tensor, "..."]:
        r"""$\log|\det D\phi(z)|$."""
        return self._map(z)[1]

    def inverse(self, y: Float[Tensor, "... n"]) -> Float[Tensor, "... n"]:
        r"""$\phi^{-1}(y)$."""
        first, second = y[..., : self.first_size], y[..., self.first_size :]
        for layer in reversed(range(len(self.networks))):
            if layer % 2 == 0:
                log_scale, shift = self._coupling(layer, first)
                second = (second - shift) * (-log_scale).exp()
            else:
                log_scale, shift = self._coupling(layer, second)
                first = (first - shift) * (-log_scale).exp()
        return torch.cat([first, second], dim=-1)

    def _map(self, z: Tensor) -> tuple[Tensor, Tensor]:
        first, second = z[..., : self.first_size], z[..., self.first_size :]
        total = 0.0 * z.sum(-1)
        for layer in range(len(self.networks)):
            if layer % 2 == 0:
                log_scale, shift = self._coupling(layer, first)
                second = second * log_scale.exp() + shift
            else:
                log_scale, shift = self._coupling(layer, second)
                first = first * log_scale.exp() + shift
            total = total + log_scale.sum(-1)
        return torch.cat([first, second], dim=-1), total

    def _coupling(self, layer: int, given: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithm of the stretch (bounded) and shift of one coupling."""
        log_scale, shift = self.networks[layer](given).chunk(2, dim=-1)
        return log_scale.tanh(), shift
