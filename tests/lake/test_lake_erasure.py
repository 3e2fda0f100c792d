"""Who is erased from a lake is gone from its files, and comes back to the account as it was."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from lake.twins import Twins
from sampled import one_in

import sparseq
from checks.stores import made_store
from sparseq.cli.app import sparseq as command
from sparseq.lake.doctor import examine
from sparseq.lake.lake_store import LakeBackend
from sparseq.series.methods.forecast import Forecast
from sparseq.series.methods.strategy_series import CorrelatedSeries
from sparseq.store import curator
from sparseq.store.store import Store

pytest.importorskip("deltalake", reason="pip install 'sparseq[lake]'")
COUNT = "SELECT count(*) AS n FROM visits"
BY_NAME = "SELECT name, count(DISTINCT who) AS n, sum(x) AS s FROM visits GROUP BY name"
BY_DAY = "SELECT count(DISTINCT who) AS n FROM visits WHERE day = {}"
MARK, OTHER = "marked-person-7c41", "marked-words-93f0"


def rows(seed: int = 1) -> pa.Table:
    """Of 30 people; one has words that nobody else has."""
    draw = np.random.default_rng(seed)
    who = [MARK if k == 7 else f"person {k}" for k in [*range(30), *draw.integers(0, 30, 90)]]
    name = [OTHER if w == MARK else draw.choice(["a", "b"]) for w in who]
    day, x = draw.integers(0, 3, len(who)), draw.uniform(0, 9, len(who))
    return pa.table({"who": who, "name": name, "day": day, "x": x})


TOLD: dict[str, Any] = {
    "table": "visits",
    "user": "who",
    "seed": 4,
    "norm_budget": 40.0,
    "in_or_out": True,
    "keys": {"name": ["a", "b"]},
    "bounds": {"x": (0, 9)},
    "reserves": {"forecast": 0.25},
}


def asked(store: Store) -> Store:
    """The store with a forecast, a strategy and an answer."""
    forecast, news = Forecast(store, "f", ticks=3), CorrelatedSeries(store, "c", "1,-0.5")
    for day in range(2):
        forecast.ask(day, store.lower(BY_DAY.format(day)))
        news.ask(day, store.lower(BY_DAY.format(day)))
    store.sql(BY_NAME)
    return store


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "lake"
    asked(made_store(f"lake://{folder}", rows(), buckets=3, **TOLD)).close()
    return folder


@pytest.fixture
def lake(made: Path, tmp_path: Path) -> Path:
    """A lake that has been asked."""
    return shutil.copytree(made, tmp_path / "lake")


@pytest.fixture
def both(lake: Path) -> Twins:
    """The same in memory and as a lake."""
    return Twins(asked(made_store(None, rows(), **TOLD)), sparseq.connect(lake))


def left(folder: Path, word: str) -> list[Path]:
    """The files that a word is in, as it is written."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if word.encode() in path.read_bytes()]


def test_no_byte_is_left_and_whoever_comes_back_has_the_account(
    both: Twins, tmp_path: Path
) -> None:
    assert left(tmp_path, MARK)
    assert left(tmp_path, OTHER)
    both.lake.ingest(rows(2), again=True)
    both.one.ingest(rows(2))
    gone = [curator.forget(store, MARK, "person 3") for store in (both.one, both.lake)]
    assert gone[0] == gone[1]
    assert gone[0].people == 2
    assert not left(tmp_path, MARK)
    assert not left(tmp_path, OTHER)
    assert {one.of: one.said for one in examine(tmp_path / "lake", deep=True) if one.wrong} == {}
    assert curator.forget(both.lake, MARK).people == 0  # it was erased before
    both.ask(COUNT)
    both.lake.close()
    both.lake = sparseq.connect(tmp_path / "lake")
    both.ask(BY_NAME)
    both.same_accounts()
    for store in (both.one, both.lake):
        Forecast(store, "f").ask(2, store.lower(BY_DAY.format(2)))
        store.ingest(rows(3), again=True)
    both.same_accounts()
    both.ask(COUNT)
    assert curator.account(both.lake, MARK) == curator.account(both.one, MARK)


def test_exact_facts_are_those_of_one_machine(both: Twins) -> None:
    one, lake = both.one, both.lake
    assert curator.counts(lake) == curator.counts(one)
    assert curator.spend(lake) == curator.spend(one)
    for who in ("person 3", MARK):
        assert curator.account(lake, who) == curator.account(one, who)
    found = [sorted(curator.top_spenders(store, 30)) for store in (one, lake)]
    assert found[0] == found[1]
    for store in (one, lake):
        store.tell_curator("engine", "a line")
        assert [(line.kind, line.message) for line in curator.log(store, 1)] == [
            ("engine", "a line")
        ]
        for unknown in ("nobody", "person 30"):
            with pytest.raises(sparseq.ParameterError, match="nobody has"):
                curator.forget(store, "person 1", unknown)


def test_commands_of_the_curator(lake: Path) -> None:
    address = f"lake://{lake}"

    def said(*words: str) -> str:
        done = CliRunner().invoke(command, ["curator", address, *words])
        assert done.exit_code == 0, done.output
        return done.stdout

    assert json.loads(said("summary", "--format", "json"))["users"] == 30
    assert f"erased {MARK}" in said("forget", MARK, "--yes")
    assert json.loads(said("user", MARK, "--format", "json"))["id"] == "(erased)"
    refused = CliRunner().invoke(command, ["curator", address, "sql", COUNT])
    assert refused.exit_code == 4


@pytest.mark.parametrize("moment", one_in(2, ["buckets", "commit", "sweep"]))
def test_an_erasure_that_is_stopped_erases_all_or_nothing(
    lake: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was left when it died after its commit, the doctor removes."""
    store = sparseq.connect(lake)

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        if moment == "buckets":
            dying.setattr("sparseq.lake.lake_store.LakeBackend._lay_out", dies)
        elif moment == "commit":
            dying.setattr("sparseq.lake.fenced_log.FencedLog._extend", dies)
        else:
            dying.setattr(LakeBackend, "sweep", dies)
        with contextlib.suppress(KeyboardInterrupt):
            curator.forget(store, MARK)
    done = CliRunner().invoke(command, ["doctor", f"lake://{lake}", "--deep", "--sweep"])
    assert done.exit_code == 0, done.output
    with sparseq.connect(lake) as again:
        assert curator.account(again, MARK).rows["visits"] == (
            0 if moment == "sweep" else again_rows()
        )
    assert bool(left(lake, OTHER)) == (moment != "sweep")


def again_rows() -> int:
    return rows()["who"].to_pylist().count(MARK)
