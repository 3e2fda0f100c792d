"""The compiled loops of networks, against PyTorch's own layers."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="pip install 'sparseq[networks]'")
from torch import Tensor, nn  # noqa: E402

from sparseq.compiled import compiled  # noqa: E402
from sparseq.networks.network import layers  # noqa: E402
from sparseq.networks.network.pooled_relu import _MaxPool, join_steps  # noqa: E402

pytestmark = pytest.mark.skipif(compiled() is None, reason="pip install 'sparseq[fast]'")


def images(*shape: int, seed: int = 0, integers: bool = True) -> Tensor:
    """Small integers: many are equal, and every sum of them is exact."""
    generator = torch.Generator().manual_seed(seed)
    if integers:
        return torch.randint(-3, 4, shape, generator=generator).float()
    return torch.randn(shape, generator=generator)


@pytest.mark.parametrize("memory", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize(
    ("kernel", "stride"), [(2, 1), (2, 2), (3, 1), (3, 2), ((1, 3), (2, 1)), ((3, 2), (1, 3))]
)
def test_pooling_is_pytorchs(kernel: Any, stride: Any, memory: Any) -> None:
    """To the bit, values and gradients, also where several of a window are the largest."""
    z = images(5, 4, 9, 11).contiguous(memory_format=memory).requires_grad_()
    theirs = nn.Sequential(nn.ReLU(), nn.MaxPool2d(kernel, stride))
    ours = join_steps(theirs)
    out, expected = ours(z), theirs(z)
    assert type(out.grad_fn).__name__ == "_MaxPoolBackward"
    assert torch.equal(out, expected)
    g = images(*out.shape, seed=1)
    (found,) = torch.autograd.grad(out, z, g)
    (true,) = torch.autograd.grad(expected, z, g)
    assert torch.equal(found, true)
    assert true.any()


@pytest.mark.parametrize("extreme", [np.nan, np.inf, -np.inf, 1e-42])
def test_extremes_are_pooled_as_by_pytorch(extreme: float) -> None:
    z = images(3, 2, 6, 6)
    z[1, 0, 2:4, 3], z[1, 1, 5, 5], z[2, 0, 0, 0] = extreme, extreme, extreme
    z.requires_grad_()
    theirs = nn.Sequential(nn.ReLU(), nn.MaxPool2d(2, 1))
    out, expected = join_steps(theirs)(z), theirs(z)
    assert torch.equal(out.nan_to_num(7.0), expected.nan_to_num(7.0))
    g = images(*out.shape, seed=1)
    found, true = (torch.autograd.grad(o, z, g)[0] for o in (out, expected))
    assert torch.equal(found, true)


def test_only_what_is_the_same_is_joined() -> None:
    """Either order; not where padding, indices or hooks would be lost; parts of it stand alone."""
    z = images(2, 3, 8, 8)
    pooled = nn.Sequential(nn.MaxPool2d(2, 1), nn.ReLU(), nn.Conv2d(3, 2, 2), nn.ReLU())
    with (
        torch.no_grad()
    ):  # a convolution's order of addition depends on how its input lies in memory
        for some in pooled[2].parameters():
            some.copy_(torch.round(8 * some))  # so every sum is exact
    found = join_steps(pooled)
    assert torch.equal(found(z), pooled(z))
    assert torch.equal(found[:1](z), pooled[:1](z))  # no ReLU yet
    assert torch.equal(found[1:](z), pooled[1:](z))
    assert all(a is b for a, b in zip(found.parameters(), pooled.parameters(), strict=True))
    assert type(pooled) is nn.Sequential
    seen: list[int] = []
    pooled[1].register_forward_hook(lambda *_: seen.append(1))
    join_steps(pooled)(z)
    assert seen == [1]
    for pool in (
        nn.MaxPool2d(2, padding=1),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        nn.MaxPool2d(2, dilation=2),
        nn.AvgPool2d(2),
    ):
        other = nn.Sequential(nn.ReLU(), pool)
        assert torch.equal(join_steps(other)(z), other(z))


CONVOLUTIONS = {
    "one channel": nn.Conv2d(1, 4, 4, 2, padding=1),
    "runs that do not divide": nn.Conv2d(3, 5, (3, 2), (2, 3), padding=(0, 1)),
    "dilated": nn.Conv2d(2, 3, 3, dilation=2, padding=2),
    "dilated downwards": nn.Conv2d(2, 3, (2, 3), dilation=(3, 1)),
    "as large as the image": nn.Conv2d(2, 3, (8, 9)),
}


@pytest.mark.parametrize("records", [1, 3])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_gradients_of_kernels_are_pytorchs(
    name: str, records: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the loop and without it: to the bit where sums are exact, and in the parameter's order."""
    module = copy.deepcopy(CONVOLUTIONS[name])
    a = images(4 * records, module.in_channels, 8, 9)
    out = module(a)
    g = images(*out.shape, seed=1)
    true = [
        torch.autograd.grad(out, module.weight, g * mask[:, None, None, None], retain_graph=True)[0]
        for mask in torch.eye(4).repeat_interleave(records, 1)
    ]
    for available in (compiled, lambda: None):
        monkeypatch.setattr(layers, "compiled", available)
        part = layers._conv2d(module, a, g, 4)["weight"]
        assert isinstance(part, layers.ExplicitGradient)
        assert part.place is not None
        for row, square, one in zip(part.rows, part.squares(), true, strict=True):
            assert torch.equal(row[torch.from_numpy(part.place)], one.flatten())
            assert square == one.double().square().sum()


def test_pooling_keeps_numbers_apart() -> None:
    """What is made of an image does not depend on where it lies, nor on what lies beside it."""
    z = images(6, 4, 9, 11, integers=False)
    alone = _MaxPool.apply(z[3:4], (2, 2), (1, 1))
    z[[2, 4]] = torch.nan
    assert torch.equal(_MaxPool.apply(z, (2, 2), (1, 1))[3:4], alone)
