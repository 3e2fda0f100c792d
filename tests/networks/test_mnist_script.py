"""The script of the MNIST table runs, on made-up digits in the data's form."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("torch", reason="pip install 'sparseq[networks]'")

import torch

from benchmarks.papers import mnist
from benchmarks.papers.mnist import NORM, edges, engine
from benchmarks.papers.table import KEYS


def write(folder: Path, part: str, count: int) -> None:
    """Digits that are bright in a place of their own."""
    rng = np.random.default_rng(count)
    labels = rng.integers(0, 10, count).astype(np.uint8)
    pixels = rng.integers(0, 40, (count, 28, 28)).astype(np.uint8)
    for image, label in zip(pixels, labels, strict=True):
        image[4 * (label // 4) : 4 * (label // 4) + 8, 6 * (label % 4) : 6 * (label % 4) + 6] = 255
    for kind, values, code in (("images-idx3", pixels, 0x803), ("labels-idx1", labels, 0x801)):
        head = np.array([code, *values.shape], ">u4").tobytes()
        (folder / f"{part}-{kind}-ubyte.gz").write_bytes(gzip.compress(head + values.tobytes()))


def test_the_script_prints_its_table_and_draws_its_figure(tmp_path: Path) -> None:
    write(tmp_path, "train", 300)
    write(tmp_path, "t10k", 100)
    options = ["--data", str(tmp_path), "--quick", "--epsilon", "0.5", "--trials", "1"]
    options += ["--format", "json", "--figure", str(tmp_path / "f")]
    done = CliRunner().invoke(mnist.main, options)
    assert done.exit_code == 0, done.output
    (line,) = done.stdout.splitlines()
    row = json.loads(line)
    assert tuple(row) == KEYS
    assert (row["epsilon"], row["paper_plain"], row["paper_filtered"]) == (0.5, 94.62, 94.90)
    assert 0 <= row["accuracy_filtered"] <= 100
    assert (tmp_path / "f" / "mnist_0.5.png").read_bytes().startswith(b"\x89PNG")


def test_a_folder_without_digits_is_told_where_they_come_from(tmp_path: Path) -> None:
    done = CliRunner().invoke(mnist.main, ["--data", str(tmp_path)])
    assert done.exit_code == 1
    assert isinstance(done.exception, SystemExit)
    assert "train-images-idx3-ubyte" in done.stderr


def test_the_first_layer_starts_blind_to_brightness_and_sees_edges_from_every_side() -> None:
    filters = edges().numpy().reshape(16, 64)
    np.testing.assert_allclose(np.linalg.norm(filters, axis=1), NORM, rtol=1e-6)
    np.testing.assert_allclose(filters[:12].sum(1), 0, atol=1e-6)
    np.testing.assert_allclose(filters[:6], -filters[6:12], atol=1e-6)
    cosines = filters @ filters.T / NORM**2 - np.eye(16)
    assert cosines.max() < 0.9  # no two are nearly the same


def test_a_start_is_its_seeds_and_guesses_nothing() -> None:
    x, y = torch.rand(20, 1, 28, 28), torch.arange(20) % 10
    first, same, other = (engine(x, y, seed) for seed in (0, 0, 1))
    assert np.array_equal(first.start(), same.start())
    assert not np.array_equal(first.start(), other.start())
    first.load(first.start())
    assert not first.module(x).any()
