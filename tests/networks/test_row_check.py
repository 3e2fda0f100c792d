"""A user's gradient is the same bits at each place of a batch, or the batch is made smaller."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="pip install 'sparseq[networks]'")
from torch import Tensor, nn  # noqa: E402

from sparseq.base.errors import ParameterError  # noqa: E402
from sparseq.networks.network import Network  # noqa: E402
from sparseq.networks.network import engine as engine_module  # noqa: E402
from sparseq.networks.network.row_check import RowCheck, batch_shapes, check_rows  # noqa: E402

USERS = np.arange(40)
PATHS: dict[str, dict[str, str]] = {
    "default": {},
    "MKL's fastest": {"MKL_CBWR": "OFF"},
    "AVX2": {"MKL_CBWR": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    "AVX-512": {"MKL_CBWR": "AVX512", "ATEN_CPU_CAPABILITY": "avx512"},
    "plain": {"MKL_CBWR": "COMPATIBLE", "ATEN_CPU_CAPABILITY": "default"},
}
"""Code paths of PyTorch's libraries; a processor without one takes its own best."""


class Uneven(nn.Module):
    """A module that rounds a row by its place, as a library may, in batches above a size."""

    def __init__(self, largest: int) -> None:
        super().__init__()
        self.largest, self.out = largest, nn.Linear(7, 3)

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.out(x)
        if len(z) <= self.largest:
            return z
        return z * (1 + 1e-6 * torch.arange(len(z)).unsqueeze(1) / len(z))


def network(largest: int, micro: int) -> Network:
    x, y = torch.randn(len(USERS), 7), torch.zeros(len(USERS), dtype=torch.long)
    return Network(Uneven(largest), USERS, x, y, micro=micro)


@pytest.mark.parametrize(
    ("largest", "micro", "taken"), [(64, 20, 20), (19, 20, 16), (12, 64, 8), (8, 8, 8)]
)
def test_the_largest_size_that_keeps_users_apart_is_taken(
    largest: int, micro: int, taken: int
) -> None:
    engine = network(largest, micro)
    assert engine.micro == taken
    assert {batch.size for batch in engine.batches()} == {taken}
    assert all(check_rows(engine, *shape) is RowCheck.APART for shape in batch_shapes(taken))


def test_a_library_that_never_keeps_users_apart_is_named_with_its_setting() -> None:
    with pytest.raises(ParameterError, match=r"matrix library rounds.*MKL_CBWR=") as caught:
        network(0, 64)
    assert "MKL_CBWR=COMPATIBLE" in (caught.value.hint or "")


def test_the_shapes_that_are_checked_depend_on_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[int, int]] = []

    def noted(engine: Network, users: int, records: int) -> RowCheck:
        tried.append((users, records))
        return check_rows(engine, users, records)

    monkeypatch.setattr(engine_module, "check_rows", noted)
    x, y = torch.zeros(2, 3), torch.zeros(2, dtype=torch.long)
    for users in ([0, 1], [0, 0]):
        tried.clear()
        Network(nn.Linear(3, 2), np.array(users), x, y, micro=8)
        assert sorted(tried) == [(1, 8), (2, 4), (4, 2), (8, 1)]


def test_reproducible_kernels_are_asked_for_unless_the_environment_says_otherwise() -> None:
    code = "import torch, os, sparseq.networks.network; print(os.environ['MKL_CBWR'])"
    for given, found in ({}, "COMPATIBLE"), ({"MKL_CBWR": "AVX2"}, "AVX2"):
        rest = {k: v for k, v in os.environ.items() if k != "MKL_CBWR"}
        done = subprocess.run(
            [sys.executable, "-c", code], env=rest | given, capture_output=True, text=True
        )
        assert done.stdout.strip() == found, done.stderr


@pytest.mark.deep
@pytest.mark.parametrize("path", PATHS)
def test_the_paper_s_network_trains_on_each_code_path(path: str) -> None:
    """The CNN of the paper at seven batch sizes: each is taken, or a smaller one in its place."""
    code = (
        "import numpy as np, torch\n"
        "from benchmarks.papers.mnist import network\n"
        "from sparseq.networks.network import Network\n"
        "from sparseq.networks.network.row_check import *\n"
        "x, y = torch.randn(640, 1, 28, 28), torch.zeros(640, dtype=torch.long)\n"
        "for micro in (320, 256, 128, 64, 32, 16, 8):\n"
        "    engine = Network(network(), np.arange(640), x, y, micro=micro)\n"
        "    for users, records in batch_shapes(engine.micro):\n"
        "        assert check_rows(engine, users, records) is RowCheck.APART\n"
    )
    rest = {k: v for k, v in os.environ.items() if k not in PATHS["AVX2"]}
    done = subprocess.run(
        [sys.executable, "-c", code], env=rest | PATHS[path], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
