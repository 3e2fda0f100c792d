"""A run's name stands for one run: whatever it depends on, it is not read back for another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import sparseq
from benchmarks.declared import of_each
from checks.stores import made_store
from sparseq.cli.app import sparseq as command
from sparseq.cli.train import depends_on
from sparseq.training import ClosedForm, PrivateGD, family
from sparseq.training.features import features_of, target_of
from sparseq.training.identity import code_of, digest_of

N = 300
HOW = PrivateGD(steps=3, rate=4.0, people=N)


def columns(sign: int) -> pa.Table:
    f = np.linspace(-1, 1, N)
    sex = np.where(np.arange(N) % 2, "f", "m")
    return pa.table({"who": np.arange(N), "f": f, "sex": sex, "y": (sign * f > 0).astype(float)})


def made(path: Path, **declared: Any) -> Path:
    tables = {"a": columns(1), "b": columns(-1)}
    names = {name: table.column_names for name, table in tables.items()}
    given: dict[str, Any] = {
        "bounds": of_each({"f": (-1, 1)}, names),
        "keys": of_each({"sex": ["f", "m"]}, names),
        **{what: of_each(said, names) for what, said in declared.items()},
    }
    made_store(path, tables=tables, user="who", norm_budget=20, kappa=8, seed=1, **given).close()
    return path


def train(store: Path, *changed: str) -> Any:
    options = {
        "--table": "a",
        "--target": "y=1",
        "--features": "f",
        "--steps": "3",
        "--people": f"{N}",
        "--rate": "4",
        "--run": "r1",
        "--format": "json",
    }
    options |= dict(zip(changed[::2], changed[1::2], strict=True))
    line = [part for pair in options.items() for part in pair]
    return CliRunner().invoke(command, ["train", str(store), *line])


def test_the_same_name_for_another_table_is_refused_with_what_differs(tmp_path: Path) -> None:
    store = made(tmp_path / "s.sparseq")
    first = train(store)
    assert first.exit_code == 0, first.output
    other = train(store, "--table", "b")
    assert other.exit_code == 3
    assert "'r1' was begun with" in other.stderr
    assert "table a, not b" in other.stderr
    assert train(store).stdout == first.stdout, "the same again is the same, free"
    own = train(store, "--table", "b", "--run", "r2")
    assert own.exit_code == 0
    with sparseq.connect(store) as con:
        assert con.released == 6


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        (("--features", "f/4"), "feature f"),
        (("--rate", "2"), "rate"),
        (("--model", "linear", "--target", "y"), "model"),
    ],
)
def test_the_same_name_for_anything_else_is_refused(
    changed: tuple[str, ...], what: str, tmp_path: Path
) -> None:
    store = made(tmp_path / "s.sparseq")
    assert train(store).exit_code == 0
    other = train(store, *changed)
    assert other.exit_code == 3
    assert what in other.stderr
    with sparseq.connect(store) as con:
        assert con.released == 3


@pytest.mark.parametrize(
    ("declared", "what"),
    [
        ({"bounds": {"f": (-1, 2)}}, "feature f"),
        ({"keys": {"sex": ["f", "m", "x"]}}, "feature sex"),
        ({}, "file of the model"),
    ],
)
def test_bounds_keys_and_code_belong_to_a_run(
    declared: dict[str, Any], what: str, tmp_path: Path
) -> None:
    facts, code = [], tmp_path / "net.py"
    for given in ({}, declared):
        given = {"bounds": {"f": (-1, 1)}, "keys": {"sex": ["f", "m"]}} | given
        with made_store(None, columns(1), table="a", user="who", seed=1, **given) as con:
            table = con.catalog.table("a")
        features = features_of(table, ["f", "sex"], "y")
        code.write_text(f"# {len(facts)}" if what == "file of the model" else "")
        target = target_of(table, "y=1", "logistic")
        facts.append(depends_on(table, features, target, f"{code}:made"))
    assert [name for name in facts[0] if facts[0][name] != facts[1][name]] == [what]


def engine(bound: float = 1.0) -> ClosedForm:
    x = np.linspace(-1, 1, N)[:, None]
    return ClosedForm(family("logistic"), range(N), x, x[:, 0] > 0, bound=bound)


def store() -> sparseq.Store:
    people = pa.table({"who": range(N)})
    return sparseq.create(
        None,
        {"t": people},
        user="who",
        seed=1,
        purposes=[sparseq.Questions(counts=40)],
    )


def test_in_python_too(tmp_path: Path) -> None:
    con = store()
    first = HOW.fit(con, engine(), run="a", depends={"data": "Monday's"})
    again = HOW.fit(con, engine(), run="a", depends={"data": "Monday's"})
    assert np.array_equal(first.params, again.params)
    for changed, given in ((engine(2.0), "Monday's"), (engine(), "Tuesday's")):
        with pytest.raises(sparseq.QueryRefused, match="was begun with"):
            HOW.fit(con, changed, run="a", depends={"data": given})
    with pytest.raises(sparseq.QueryRefused, match="was begun with description"):
        HOW.fit(con, engine(), run="a", about="another", depends={"data": "Monday's"})
    assert con.released == 3


def test_without_its_record_a_run_is_not_read_back_for_another() -> None:
    con = store()
    HOW.fit(con, engine(), run="a")
    con.backend.database.execute("DELETE FROM meta WHERE key = 'train/a'")
    with pytest.raises(sparseq.QueryRefused):
        HOW.fit(con, engine(2.0), run="a")
    assert con.released == 3


def test_an_analysts_request_id_is_no_step_of_a_run() -> None:
    con = store()
    for name in ("a/1", "train/a/1", "train//a/1"):
        con.sql("SELECT count(*) AS n FROM t", request_id=name)
    HOW.fit(con, engine(), run="a")
    assert con.released == 6


def test_code_is_told_apart_by_what_it_does() -> None:
    def one(x: int) -> int:
        return x

    def two(x: int) -> int:
        return x + 1

    assert code_of(one) == code_of(one) != code_of(two)
    assert code_of(one, two) != code_of(two, one)
    exec("def one(x): return x - 1", made := {})
    exec("def one(x): return x - 2", other := {})
    assert code_of(made["one"]) != code_of(other["one"])
    assert digest_of("a", "b") != digest_of("ab", "")
