"""The transformer: what it sees, where it starts, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from geomgen.absorbing import Transformer
from geomgen.absorbing.networks import rotary_angles, rotate

K, LENGTH = 5, 12
VARIANTS: list[dict[str, Any]] = [{}, {"tied": True}, {"fixed_layout": True}, {"fixed_layout": True, "grid": (3, 4)}]


def network(**options: Any) -> Transformer:
    """A small network whose head and bias are no longer zero."""
    torch.manual_seed(1)
    net = Transformer(K, LENGTH, width=16, depth=2, heads=2, **options).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return net


def tokens(batch: int = 3, length: int = LENGTH) -> Tensor:
    return torch.randint(0, K + 1, (batch, length), generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("options", VARIANTS)
def test_chosen_positions_equal_the_full_output(options: dict[str, Any]) -> None:
    net, x = network(**options), tokens()
    positions = torch.tensor([[2, 0], [0, 11], [0, 3]])
    torch.testing.assert_close(net(x, positions), net(x)[positions[:, 0], positions[:, 1]], rtol=0, atol=1e-14)
    assert net(x).shape == (3, LENGTH, K)
    assert net(x, torch.zeros(0, 2, dtype=torch.int64)).shape == (0, K)


@pytest.mark.parametrize("options", VARIANTS)
def test_it_looks_both_ways_but_at_no_other_row(options: dict[str, Any]) -> None:
    net, x = network(**options), tokens()
    changed = x.clone()
    changed[0, 6] = (x[0, 6] + 1) % K
    difference = (net(changed) - net(x)).abs().amax(2)
    assert (difference[0] > 1e-9).all()
    assert (difference[1:] == 0).all()


def test_shorter_sequences() -> None:
    net, x = network(), tokens(length=5)
    assert net(x).shape == (3, 5, K)
    with pytest.raises(ValueError, match="length 13; this network accepts at most 12"):
        net(tokens(length=13))


def test_without_fixed_layout_a_rotated_product_depends_on_distance_only() -> None:
    angles = rotary_angles(20, 8, None).double()
    cosine, sine = torch.cat((angles.cos(), angles.cos()), 1), torch.cat((-angles.sin(), angles.sin()), 1)
    query, key = torch.randn(2, 8, dtype=torch.float64)
    scores = rotate(query.expand(20, 8), cosine, sine) @ rotate(key.expand(20, 8), cosine, sine).T
    for offset in (-7, 0, 3):
        diagonal = scores.diagonal(offset)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=0, atol=1e-6)
    assert (scores.diagonal(1)[0] - scores.diagonal(2)[0]).abs() > 1e-3


def test_grid_positions_depend_on_both_distances() -> None:
    angles = rotary_angles(12, 8, (3, 4)).double()
    cosine, sine = torch.cat((angles.cos(), angles.cos()), 1), torch.cat((-angles.sin(), angles.sin()), 1)
    query, key = torch.randn(2, 8, dtype=torch.float64)
    scores = rotate(query.expand(12, 8), cosine, sine) @ rotate(key.expand(12, 8), cosine, sine).T
    # cells (0, 0) -> (1, 1) and (1, 2) -> (2, 3): one row down, one column right
    torch.testing.assert_close(scores[0, 5], scores[6, 11], rtol=0, atol=1e-6)
    # cells (0, 3) -> (1, 0) are neighbours in row-major order only
    assert (scores[3, 4] - scores[2, 3]).abs() > 1e-3


@pytest.mark.parametrize("options", [{}, {"fixed_layout": True}])
def test_it_starts_at_the_marginals(options: dict[str, Any]) -> None:
    net = Transformer(K, LENGTH, width=16, depth=2, heads=2, **options)
    law = torch.rand(LENGTH, K).softmax(1) if options else torch.rand(K).softmax(0)
    net.set_log_marginals(law.log())
    predicted = net(tokens()).softmax(-1)
    torch.testing.assert_close(predicted, law.expand_as(predicted))
    with pytest.raises(ValueError, match="log_marginals has shape"):
        net.set_log_marginals(torch.zeros(K + 1))
    with pytest.raises(ValueError, match="not finite"):
        net.set_log_marginals(torch.full_like(net.bias, -torch.inf))


@pytest.mark.parametrize("options", VARIANTS)
def test_everything_trainable_gets_a_gradient(options: dict[str, Any]) -> None:
    net, x = network(**options), tokens()
    net(x).logsumexp(-1).mean().backward()
    assert [name for name, parameter in net.named_parameters() if parameter.grad is None] == []
    assert [name for name, p in net.named_parameters() if p.grad is not None and not p.grad.any()] == []


def test_a_tied_head_has_no_weights_of_its_own() -> None:
    sizes = {t: sum(p.numel() for p in Transformer(K, LENGTH, tied=t).parameters()) for t in (False, True)}
    assert sizes[False] - sizes[True] == K * 64


def test_mask_inside_the_vocabulary() -> None:
    assert Transformer(K, LENGTH, num_states=K).embedding.num_embeddings == K


def test_half_precision() -> None:
    net, x = network().float(), tokens()
    with torch.autocast("cpu", torch.bfloat16):
        logits = net(x)
    assert (logits.float() - net(x)).abs().max() < 0.1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 10, "heads": 4}, "width=10 must be a multiple of 2 \\* heads=8"),
        ({"width": 12, "heads": 2, "grid": (3, 4)}, "multiple of 4 \\* heads=8"),
        ({"grid": (2, 4)}, "grid=\\(2, 4\\) has 8 cells and must have length=12"),
        ({"depth": 0, "num_states": 3}, "depth=0 must be at least 1; num_states=3 must be at least vocab_size=5"),
    ],
)
def test_bad_sizes(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Transformer(K, LENGTH, **options)
