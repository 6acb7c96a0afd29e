"""Put a sampler to the test: small target laws, an independent enumeration, and a test of samples against a law."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .denoisers import Denoiser, TabularDenoiser
from .law import exact_law
from .sampler import Sampler

__all__ = ["assert_sampler_law", "chi_square", "enumerate_bins", "small_targets"]


def small_targets() -> dict[str, Tensor]:
    """Six laws, each (K,) * d float64, on which exact laws are quick.

    ``dense_d2K2``, ``dense_d3K2`` (full support), ``ising_ring_d4`` (full support, local), ``parity_d4`` and
    ``perm_d4`` (hard constraints), ``product_d3K3`` (independent tokens: every sampler is exact).
    """
    marginals = [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7], [0.4, 0.4, 0.2]]
    product = torch.einsum("a,b,c->abc", *torch.tensor(marginals, dtype=torch.float64))
    return {
        "dense_d2K2": _dense(2, 2),
        "dense_d3K2": _dense(3, 2),
        "ising_ring_d4": _from_weights(4, 2, _ising),
        "parity_d4": _from_weights(4, 2, lambda x: float(sum(x) % 2 == 0)),
        "perm_d4": _from_weights(4, 4, lambda x: float(len(set(x)) == 4)),
        "product_d3K3": product,
    }


def _from_weights(length: int, size: int, weight: Callable[[tuple[int, ...]], float]) -> Tensor:
    weights = [weight(x) for x in itertools.product(range(size), repeat=length)]
    law = torch.tensor(weights, dtype=torch.float64).view((size,) * length)
    return law / law.sum()


def _dense(length: int, size: int) -> Tensor:
    r"""Weights $1 + ((7i^2 + 3i + 2) \bmod 11)$ in C order."""
    i = torch.arange(size**length)
    weights = (1 + (7 * i * i + 3 * i + 2) % 11).double()
    return (weights / weights.sum()).view((size,) * length)


def _ising(x: tuple[int, ...]) -> float:
    r"""Ising ring of coupling .4 in a field .1, spins $\pm1$."""
    spins = torch.tensor(x, dtype=torch.float64) * 2 - 1
    return float(torch.exp(0.4 * (spins * spins.roll(-1)).sum() + 0.1 * spins.sum()))


def enumerate_bins(pmf: Float[Tensor, "*states"], fractions: Float[Tensor, " N1"]) -> Float[Tensor, "*states"]:
    r"""Law of any sampler with Bernoulli reveal bins, by summing over all assignments of tokens to bins.

    $p(x) = \sum_{b\in[N]^d}\prod_i \Delta p_{b_i}\prod_i q_0(x_i\,|\,x_{\{j: b_j < b_i\}})$, a second way
    to what `exact_law` propagates.

    Args:
        pmf: the data law, (K,) * d.
        fractions: reveal fractions $p_0 = 0, \dots, p_N = 1$.

    Raises:
        ValueError: more than 10^5 assignments.
    """
    weights, length, size = fractions.double().diff(), pmf.dim(), pmf.shape[0]
    if len(weights) ** length > 100_000:
        raise ValueError(f"{len(weights)} bins and {length} tokens make more than 10^5 assignments")
    denoiser = TabularDenoiser(pmf)
    sequences = torch.cartesian_prod(*[torch.arange(size)] * length).view(-1, length)
    conditionals = {}
    for revealed in itertools.product([False, True], repeat=length):
        context = sequences.masked_fill(~torch.tensor(revealed), size)
        conditionals[revealed] = denoiser(context).exp().gather(2, sequences[:, :, None]).squeeze(2)
    law = torch.zeros(len(sequences), dtype=torch.float64)
    for bins in itertools.product(range(len(weights)), repeat=length):
        term = weights[list(bins)].prod()
        factors = [conditionals[tuple(other < b for other in bins)][:, i] for i, b in enumerate(bins)]
        law += term * torch.stack(factors).prod(0)
    return law.view(pmf.shape)


def chi_square(tokens: Int[Tensor, "B d"], law: Float[Tensor, "*states"]) -> float:
    """P-value of Pearson's test that sequences (B, d) were drawn from a law (S,) * d.

    Cells that expect fewer than 5 sequences are pooled; any sequence of probability zero gives 0.
    """
    strides = torch.tensor([law.stride(axis) for axis in range(law.dim())])
    counts = torch.bincount((tokens.cpu() * strides).sum(1), minlength=law.numel()).double()
    expected = law.flatten() * len(tokens)
    if bool((counts[expected == 0] > 0).any()):
        return 0.0
    small = expected < 5
    counts = torch.cat([counts[~small], counts[small].sum()[None]])
    expected = torch.cat([expected[~small], expected[small].sum()[None]])
    counts, expected = counts[expected > 0], expected[expected > 0]
    statistic = ((counts - expected) ** 2 / expected).sum()
    degrees = torch.tensor(max(len(counts) - 1, 1), dtype=torch.float64)
    return float(torch.special.gammaincc(degrees / 2, statistic / 2))


def assert_sampler_law(
    sampler: Sampler,
    denoiser: Denoiser,
    law: Tensor | None = None,
    *,
    num_samples: int = 200_000,
    prompt: Tensor | None = None,
    alarm: float = 1e-4,
    seed: int = 0,
) -> None:
    """Raise AssertionError unless a sampler's samples follow a law (default: its own exact law).

    Args:
        sampler: any sampler with stages.
        denoiser: an exact denoiser of a small law.
        law: (K,) * d.
        num_samples: sequences drawn.
        prompt: (L,), `mask_id` where free.
        alarm: false-alarm probability of the test.
        seed: of the generator.
    """
    law = exact_law(sampler, denoiser, prompt) if law is None else law
    generator = torch.Generator().manual_seed(seed)
    tokens = sampler.sample(denoiser, num_samples, prompt=prompt, generator=generator).tokens
    p = chi_square(tokens, law)
    if p < alarm:
        raise AssertionError(
            f"{type(sampler).__name__}: {num_samples} samples do not follow the law, p = {p:.2g} < {alarm:g}"
        )
