"""`train --model mlp` and `--model FILE.py:FUNCTION`: networks of a store's rows."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_runs import output, run

import sparseq

SIZE = 600
FACTORY = """
from torch import nn
def net(features, outputs):
    return nn.Sequential(nn.Linear(features, 8), nn.Tanh(), nn.Linear(8, outputs))
def mixing(features, outputs):
    return nn.Sequential(nn.Linear(features, 8), nn.BatchNorm1d(8), nn.Linear(8, outputs))
def number(features, outputs):
    return outputs
def failing(features):
    pass
"""
QUICK = ("--features", "a,b", "--steps", "15", "--rate", "2", "--people", "600")


def table(seed: int = 0) -> pa.Table:
    """A ring: who is in it can't be told by a line."""
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(-1, 1, (2, SIZE))
    inside = a**2 + b**2 < 0.6
    return pa.table(
        {
            "who": np.arange(SIZE),
            "a": a,
            "b": b,
            "inside": inside,
            "side": np.where(a > 0.3, "right", np.where(a < -0.3, "left", "middle")),
            "height": pa.array([None if i % 50 == 3 else 10 + 5 * x for i, x in enumerate(a)]),
        }
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ring") / "ring.sparseq"
    pq.write_table(table(), path.with_suffix(".parquet"))
    output(
        "create",
        path,
        path.with_suffix(".parquet"),
        "--user",
        "who",
        "--kappa",
        "50",
        "--for",
        "questions,counts=20",
        "--bounds",
        "a=-1..1",
        "--bounds",
        "b=-1..1",
        "--bounds",
        "height=5..15",
        "--keys",
        "side=left,middle,right",
        "--seed",
        "5",
    )
    path.with_name("m.py").write_text(FACTORY)
    return path


@pytest.fixture
def ring(made: Path, tmp_path: Path) -> Path:
    path = tmp_path / "ring.sparseq"
    path.write_bytes(made.read_bytes())
    return path


def test_without_pytorch_it_says_how_to_get_it(ring: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    done = run("train", ring, "--model", "mlp", "--target", "inside", *QUICK)
    assert done.exit_code == 2
    assert "pip install 'sparseq[networks]'" in done.stderr


@pytest.mark.deep
def test_a_network_learns_what_a_line_can_not(ring: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from sparseq.networks.network import load_network

    out = tmp_path / "n.pt"
    asked = (
        "train",
        ring,
        "--model",
        "mlp",
        "--target",
        "inside",
        "--features",
        "a,b",
        "--steps",
        "60",
        "--rate",
        "4",
        "--people",
        "600",
        "--output",
        out,
        "--checks",
        "1",
        "--format",
        "json",
    )
    facts = json.loads(output(*asked))
    model, test = load_network(out), table(seed=1)
    right = ((model.predict(test) > 0.5) == test["inside"].to_numpy()).mean()
    assert right > 0.85  # always the same answer: 0.53 or less
    assert facts["accuracy"] == pytest.approx(right, abs=0.06)
    assert facts["parameters"] == 3 * 64 + 65 * 2
    with sparseq.connect(ring) as con:
        spent = con.stream.accounts.spent.tolist()
    first = model.predict(test)
    assert json.loads(output(*asked)) == facts  # again: free, and the same
    assert load_network(out).predict(test).tolist() == first.tolist()
    with sparseq.connect(ring) as con:
        assert con.stream.accounts.spent.tolist() == spent
        assert max(spent) <= con.stream.accounts.budgets[0]


def test_a_function_of_a_file_makes_the_module(made: Path, ring: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from sparseq.networks.network import load_network

    net, out, test = f"{made.with_name('m.py')}:net", tmp_path / "n.pt", table(seed=1)
    output("train", ring, "--model", net, "--target", "side", *QUICK, "--output", out)
    keys = np.array(["left", "middle", "right"])
    chances = load_network(out, net).predict(test)
    assert (keys[chances.argmax(1)] == test["side"].to_numpy()).mean() > 0.6
    with pytest.raises(sparseq.ParameterError, match="was made by"):
        load_network(out)
    with pytest.raises(sparseq.DataError, match="another network"):
        load_network(out, "mlp")
    text = output(
        "train",
        ring,
        "--model",
        net,
        "--target",
        "height",
        *QUICK,
        "--rate",
        "1",
        "--output",
        out,
        "--checks",
        "1",
        "--loss",
        "0.5",
        "--format",
        "json",
    )
    assert 0 < json.loads(text)["loss"] < 0.1
    truth = 10 + 5 * test["a"].to_numpy()
    assert np.corrcoef(load_network(out, net).predict(test), truth)[0, 1] > 0.9


@pytest.mark.parametrize(
    ("model", "more", "message"),
    [
        ("m.py:mixing", [], "BatchNorm1d"),
        ("m.py:number", [], "must return a torch.nn.Module"),
        ("m.py:failing", [], "it is called with the numbers of features and outputs: 2, 2"),
        ("m.py:nobody", [], "def nobody(features, outputs)"),
        ("nowhere.py:net", [], "no Python file"),
        ("mlp", ["--output", "m.json"], ".pt"),
        ("mlp", ["--target", "height", "--checks", "1"], "no accuracy"),
    ],
)
def test_mistakes_are_told_and_charge_nobody(
    made: Path,
    ring: Path,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    more: list[str],
    message: str,
) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(made.parent)
    done = run("train", ring, "--model", model, "--target", "inside", *QUICK, *more)
    assert done.exit_code == 2, done.stderr
    assert message in done.stderr
    with sparseq.connect(ring) as con:
        assert not con.releases()
