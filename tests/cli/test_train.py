"""`train` makes a model from a store's rows, shows nothing private, and never charges twice."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from browser import browse, needs_browser
from command_runs import output, run
from sampled import one_in

import sparseq
from sparseq.accounting import Budget
from sparseq.cli.train import show_noisy
from sparseq.training import PrivateGD, TrainingResult, TrainingStep, load_model
from sparseq.training.report import report_of

SIZE = 3000


def table(size: int = SIZE, seed: int = 1) -> pa.Table:
    """Income is above the line mostly for old experts; visits grow with age."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(20, 70, size)
    job = rng.choice(["clerk", "expert", "boss", None], size)
    late = rng.random(size) < 0.5
    score = (age - 45) / 10 + 2 * (job == "expert") - late + 0.3 * rng.normal(size=size)
    kind = np.where(score > 1, "gold", np.where(score > -1, "silver", "iron"))
    return pa.table(
        {
            "who": np.arange(size),
            "age": pa.array([None if i % 50 == 7 else a for i, a in enumerate(age.tolist())]),
            "job": pa.array(job.tolist(), pa.string()),
            "late": late,
            "income": np.where(score > 0, ">50K", "<=50K"),
            "kind": kind,
            "visits": rng.poisson(np.exp(age / 50 - 0.5)),
            "pay": 1000 * score,
        }
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("people") / "people.sparseq"
    pq.write_table(table(), path.with_suffix(".parquet"))
    output(
        "create",
        path,
        path.with_suffix(".parquet"),
        "--user",
        "who",
        "--kappa",
        "2",
        "--for",
        "questions,counts=40",
        "--bounds",
        "age=20..70",
        "--bounds",
        "pay=-5000..5000",
        "--keys",
        "job=clerk,expert,boss",
        "--keys",
        "kind=gold,silver,iron",
        "--seed",
        "5",
    )
    return path


@pytest.fixture
def people(made: Path, tmp_path: Path) -> Path:
    path = tmp_path / "people.sparseq"
    path.write_bytes(made.read_bytes())
    return path


QUICK = ("--steps", "20", "--rate", "3", "--averaging", "0")
INCOME = ("--target", "income=>50K", "--features", "age/5,job,late")


def test_a_classifier_learns_what_decides(people: Path, tmp_path: Path) -> None:
    out, log = tmp_path / "m.json", tmp_path / "l.csv"
    text = output(
        "train",
        people,
        *INCOME,
        *QUICK,
        "--most",
        "steps=24",
        "--checks",
        "2",
        "--output",
        out,
        "--log",
        log,
        "--format",
        "json",
    )
    facts = json.loads(text)
    model, test = load_model(out), table(2000, seed=2)
    right = (model.predict(test) > 0.5) == (np.array(test["income"].to_pylist()) == ">50K")
    assert right.mean() > 0.85
    assert facts["accuracy"] == pytest.approx(right.mean(), abs=0.05)
    assert facts["coefficients"]["job=expert"] > facts["coefficients"]["job=clerk"]
    assert facts["coefficients"]["age 60..70"] > facts["coefficients"]["age 20..30"]
    assert facts["kappa"] == 2.0
    rows = list(csv.DictReader(log.open()))
    assert [int(r["step"]) for r in rows] == list(range(1, 25))
    assert [r["step"] for r in rows if r["accuracy"]] == ["20", "24"]
    assert float(rows[-1]["worst_case"]) == pytest.approx(1)


@pytest.mark.parametrize(
    ("model", "target", "truth"),
    [("linear", "pay", "pay"), ("poisson", "visits", "visits"), ("softmax", "kind", "kind")],
)
def test_other_models(people: Path, tmp_path: Path, model: str, target: str, truth: str) -> None:
    out = tmp_path / "m.npz"
    rate = "3" if model == "softmax" else "0.5"
    output(
        "train",
        people,
        "--model",
        model,
        "--target",
        target,
        "--features",
        "age,job,late",
        *QUICK,
        "--rate",
        rate,
        "--output",
        out,
    )
    test = table(2000, seed=2)
    mean = load_model(out).predict(test)
    if model == "softmax":
        keys = np.array(["gold", "silver", "iron"])
        assert (keys[np.argmax(mean, axis=1)] == test[truth].to_numpy()).mean() > 0.65
    else:
        found = np.corrcoef(mean, test[truth].to_numpy())[0, 1]
        age = np.array([45.0 if a is None else a for a in test["age"].to_pylist()])
        possible = np.corrcoef(np.exp(age / 50), test[truth].to_numpy())[0, 1]
        assert found > (0.85 if model == "linear" else 0.8 * possible)


def spends(path: Path) -> list[int]:
    with sparseq.connect(path) as con:
        return [*map(int, con.stream.accounts.spent)]


def test_the_same_command_again_is_free_and_the_same(people: Path, tmp_path: Path) -> None:
    asked = ("train", people, *INCOME, *QUICK, "--output", tmp_path / "m.json")
    first, model = output(*asked), (tmp_path / "m.json").read_text()
    after = spends(people)
    assert output(*asked) == first
    assert (tmp_path / "m.json").read_text() == model
    assert spends(people) == after
    other = run(*asked, "--clip", "0.5", "--run", "a")
    assert other.exit_code == 0
    assert run(*asked, "--clip", "0.4", "--run", "a").exit_code == 3  # another run of that name


def test_training_and_sql_share_a_budget(people: Path) -> None:
    longer = ("--most", "steps=60", "--clip", "0.2", "--people", "3000")
    output("train", people, *INCOME, *QUICK, *longer)
    with sparseq.connect(people) as con:
        assert np.mean(con.stream.accounts.left(np.arange(SIZE, dtype=np.int32)) < 2**24) > 0.25
        assert np.all(con.stream.accounts.spent <= con.stream.accounts.budgets)
        (row,) = con.sql("SELECT count(*) AS n FROM people").rows()
        assert row["n_low"] < 0.75 * SIZE + 100, "those whose budget is used up are left out"
        assert row["n_low"] <= SIZE <= row["n_high"]


def test_the_curators_report_is_exact_and_says_whose_it_is(people: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    report = tmp_path / "r.png"
    done = run(
        "curator",
        people,
        "train",
        *INCOME,
        *QUICK,
        "--most",
        "steps=60",
        "--clip",
        "0.2",
        "--checks",
        "2",
        "--epsilon",
        "3",
        "--delta",
        "1e-5",
        "--run",
        "a",
        "--report",
        report,
    )
    assert done.exit_code == 0, done.stderr
    assert "Curator only" in done.stderr
    assert report.read_bytes()[:4] == b"\x89PNG"
    how = PrivateGD(steps=20, most=60, clip=0.2, rate=3, averaging=0, checks=2)
    with sparseq.connect(people) as con:
        kappa = Budget.from_epsilon_delta(3, 1e-5, 1).kappa
        steps = tuple(TrainingStep(t, 0, 0, 0) for t in range(1, 61))
        trained = TrainingResult(np.zeros(1), 60, np.zeros(1), steps, kappa, "", 0.0, True)
        exact = report_of(con, how, "a", trained)
        cap = kappa / 2 * 40 * 2**24
        assert np.allclose(exact.spent, con.stream.accounts.spent / cap, rtol=1e-6)
        with pytest.raises(sparseq.StoreError, match="no run"):
            report_of(con, how, "b", trained)
    assert exact.active[:18].tolist() == [SIZE] * 18  # nobody can run out before step 20
    assert 0 < exact.active[-1] < 0.9 * SIZE
    assert np.all(np.diff(exact.active) <= 0)


def numeric(text: str) -> float | None:
    return None if text in ("", "–") else float(text)


@needs_browser
def test_a_browser_shows_the_report_with_the_numbers_of_the_log(
    people: Path, tmp_path: Path
) -> None:
    page, log = tmp_path / "r.html", tmp_path / "l.csv"
    done = run(
        "curator",
        "train",
        people,
        *INCOME,
        *QUICK,
        "--most",
        "steps=40",
        "--clip",
        "0.2",
        "--checks",
        "3",
        "--least-active",
        "1%",
        "--report",
        page,
        "--log",
        log,
    )
    assert done.exit_code == 0, done.stderr
    shown = browse(page, tmp_path / "profile")
    assert "PRIVATE" in shown
    tables = [
        [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", r) for r in re.findall(r"<tr>(.*?)</tr>", t)[1:]]
        for t in re.findall(r"<table>(.*?)</table>", shown, re.DOTALL)
    ]
    _, active, spends_, accuracy, every = tables
    rows = list(csv.DictReader(log.open()))
    assert len(rows) == len(every) == len(active) == 40
    for cells, row in zip(every, rows, strict=True):
        logged = [
            row[k] for k in ("step", "sigma", "norm", "worst_case", "accuracy", "loss", "active")
        ]
        assert [numeric(c) for c in [cells[0], *cells[2:]]] == [numeric(c) for c in logged]
    asked = [r for r in rows if r["accuracy"]]
    assert [r["step"] for r in asked] == [step for step, _ in accuracy]
    for r, (_, said) in zip(asked, accuracy, strict=True):
        value, bound = said.removesuffix(" %").split(" ± ")
        assert abs(100 * float(r["accuracy"]) - float(value)) <= 0.5 * float(bound)
    (dots,) = re.findall('class="dots large green s0" d="([^"]*)"', shown)
    assert dots.count("h0") == len(accuracy) == 3
    assert [int(c[1].replace(",", "")) for c in active] == [int(c[1]) for c in every]
    assert sum(int(n.replace(",", "")) for _, n in spends_) == SIZE
    full = [x for x in spends(people) if x > 0.975 * 40 * 2**24]
    assert int(spends_[-1][1].replace(",", "")) == len(full) > 0


def test_a_run_with_an_epsilon_says_what_it_costs(people: Path) -> None:
    text = output(
        "train", people, *INCOME, *QUICK, "--epsilon", "1", "--delta", "1e-5", "--format", "json"
    )
    facts = json.loads(text)
    assert facts["epsilon"] <= 1
    assert facts["delta"] == 1e-5
    assert max(spends(people)) / (40 * 2**24) <= facts["kappa"] / 2


def test_what_is_shown(people: Path, golden: Callable[[str, str], None]) -> None:
    golden("train", output("train", people, *INCOME, *QUICK, "--checks", "1"))


def test_checks_of_a_regression_ask_its_loss(people: Path, tmp_path: Path) -> None:
    log = tmp_path / "l.parquet"
    text = output(
        "train",
        people,
        "--model",
        "linear",
        "--target",
        "pay",
        "--features",
        "age,job,late",
        *QUICK,
        "--rate",
        "0.5",
        "--most",
        "steps=30",
        "--checks",
        "3",
        "--loss",
        "0.5",
        "--least-active",
        "0.1",
        "--log",
        log,
        "--format",
        "json",
    )
    rows = [r for r in pq.read_table(log).to_pylist() if r["loss"] is not None]
    assert [r["step"] for r in rows] == [20, 25, 30]
    facts = json.loads(text)
    assert facts["loss"] == min(r["loss"] for r in rows if r["step"] <= facts["taken"])
    assert 0 < facts["loss"] < 0.2  # half a squared error, of targets within ± 1
    assert 0 < facts["loss_error"] < 0.01
    assert all(0.9 < r["active"] < 1.1 for r in rows[:1])


def test_the_bar_tells_what_was_asked() -> None:
    step = TrainingStep(3, 1.0, 0.2, 0.5, accuracy=0.8123, active=1.02)
    assert show_noisy(step) == {"accuracy": "81.2 %", "active": "100 %"}
    assert show_noisy(TrainingStep(3, 1.0, 0.2, 0.5, loss=0.69315)) == {"loss": "0.693"}
    assert show_noisy(TrainingStep(3, 1.0, 0.2, 0.5)) == {}


@pytest.mark.parametrize(
    ("wrong", "message", "code"),
    one_in(
        2,
        [
            ({"--features": "vists"}, "did you mean 'visits'?", 3),
            (
                {"--features": "pay,income"},
                "income can't be a feature: its values are not public",
                3,
            ),
            ({"--features": "age,age/3"}, "twice", 2),
            ({"--features": "age/x"}, "number of ranges", 2),
            ({"--features": "who"}, "it can't be a feature", 3),
            ({"--features": ","}, "no features", 2),
            ({"--features": "income,age", "--target": "late"}, "its values are not public", 3),
            ({"--target": "kind=golden"}, "is not one of the keys of kind", 2),
            ({"--target": "age=x"}, "not a number", 2),
            ({"--target": "income"}, "--target income=VALUE", 3),
            ({"--model": "linear"}, "yes or no", 2),
            ({"--model": "linear", "--target": "pay", "--checks": "2"}, "no accuracy", 2),
            ({"--model": "softmax", "--target": "visits"}, "declare keys", 3),
            ({"--epsilon": "50", "--delta": "1e-5"}, "kappa", 2),
            ({"--epsilon": "1"}, "epsilon and delta", 2),
            ({"--most": "steps=3"}, "most", 2),
            ({"--output": "model.txt"}, ".json or .npz", 2),
            ({"--model": "forest"}, "FILE.py:FUNCTION", 2),
            ({"--log": "model.txt"}, ".csv or .parquet", 2),
            ({"--report": "model.txt"}, ".html, .png, .svg", 2),
            ({"--table": "nobody"}, "no table", 3),
            ({"--clip": "0"}, "clip", 2),
        ],
    ),
)
def test_mistakes_are_told_and_charge_nobody(
    people: Path, wrong: dict[str, str], message: str, code: int
) -> None:
    asked: dict[str, Any] = dict(zip(INCOME[::2], INCOME[1::2], strict=True))
    asked |= dict(zip(QUICK[::2], QUICK[1::2], strict=True)) | wrong
    done = run("train", people, *(x for pair in asked.items() for x in pair))
    assert done.exit_code == code, done.stderr
    assert message in done.stderr
    assert not any(spends(people))
