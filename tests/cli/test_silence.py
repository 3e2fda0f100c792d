"""What a name, a share or a file says is what is done, or it is refused: nothing is silent."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
from command_runs import output, run
from sampled import one_in
from test_sql_command import COUNT, releases

from sparseq.base.errors import ParameterError
from sparseq.pgwire.pg_settings import Settings
from sparseq.pgwire.wire_errors import WireError
from sparseq.question.plan import Options


@pytest.mark.parametrize(
    ("command", "name"),
    one_in(
        5,
        itertools.product(
            ["sql", "history", "curator"],
            ["a.xls", "a.csv.gz", "a.tsv", "a.jsonl", "a.sqlite", "a.duckdb"],
        ),
    ),
)
def test_a_file_is_what_its_name_says(store: Path, tmp_path: Path, name: str, command: str) -> None:
    before = releases(store)
    words = {
        "sql": ["sql", store, COUNT],
        "history": ["history", store],
        "curator": ["curator", store, "sql", "SELECT 1"],
    }[command]
    refused = run(*words, "--output", tmp_path / name)
    assert refused.exit_code != 0
    assert ".parquet" in refused.stderr
    assert not (tmp_path / name).exists()
    assert releases(store) == before


def test_a_format_does_not_go_into_a_file_of_another(store: Path, tmp_path: Path) -> None:
    for format, name in (("csv", "a.xlsx"), ("json", "a.parquet"), ("parquet", "a.arrow")):
        assert run("sql", store, COUNT, "--format", format, "-o", tmp_path / name).exit_code != 0
    output("sql", store, COUNT, "-o", tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text())["columns"]
    output("sql", store, COUNT, "-o", tmp_path / "a.txt")
    assert "release" in (tmp_path / "a.txt").read_text()


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("2", "2% or 0.02"),
        ("200%", "2% or 0.02"),
        ("1.5", "1.5% or 0.015"),
        ("-1", "-100 %"),
        ("101%", "1.01% or 0.0101"),
    ],
)
def test_a_share_above_one_is_refused(store: Path, given: str, hint: str) -> None:
    refused = run("sql", store, COUNT, "--precision", given)
    assert refused.exit_code == 2
    assert hint in refused.stderr
    for part in (
        f"questions,watch={given}",
        f"n={given},ticks=3",
        f"n=5%,ticks=3,left-out={given}",
    ):
        made = run("create", "x.sparseq", "y.csv", "--user", "who", "--for", part)
        assert hint in made.stderr


def test_a_share_above_one_is_refused_by_every_door() -> None:
    with pytest.raises(ParameterError, match="200 %"):
        Options(precision=2.0)
    settings = Settings("ada")
    settings.set("sparseq.precision", "2%")
    assert settings.options().precision == 0.02
    with pytest.raises(WireError):  # a part of what?
        settings.set("sparseq.sigma", "5%")


def test_what_an_interval_rests_on_is_one_of_two_by_every_door() -> None:
    settings = Settings("ada")
    settings.set("sparseq.interval", "Proved")
    settings.set("sparseq.at_least_useful", "on")
    assert settings.options() == Options(interval="proved", at_least_useful=True)
    settings.set("sparseq.interval", "")
    settings.set("sparseq.at_least_useful", "off")
    assert settings.options() == Options()
    with pytest.raises(ParameterError, match="it is proved or alike"):
        Options(interval="sure")
    for name, value in (("interval", "sure"), ("at_least_useful", "maybe")):
        with pytest.raises(WireError, match=f'{name} is "{value}"'):
            settings.set(f"sparseq.{name}", value)


def test_a_store_with_windows_has_public_tables(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("k,v\na,1\n")
    (tmp_path / "t.csv").write_text("who,day,k\n1,2024-01-01,a\n2,2024-02-02,a\n")
    store = tmp_path / "t.sparseq"
    output(
        "create",
        store,
        tmp_path / "t.csv",
        "--user",
        "who",
        "--time",
        "day",
        "--window",
        "month",
        "--public",
        f"p={tmp_path / 'p.csv'}",
    )
    joined = (
        "SELECT count(*) AS n FROM t JOIN p ON t.k = p.k "
        "WHERE day BETWEEN '2024-01-01' AND '2024-01-31'"
    )
    assert "interval" in output("sql", store, joined)


def test_create_and_ingest_say_what_they_read_otherwise(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes("who;Tag;Tag;x\n1;02.01.2023;3;\xe4\n".encode("latin-1"))
    store = tmp_path / "t.sparseq"
    made = run("create", store, tmp_path / "t.csv", "--user", "who")
    assert made.exit_code == 0, made.stderr
    assert "read as %d.%m.%Y: the day comes first" in made.stderr
    assert "'Tag' is called 'Tag_2'" in made.stderr
    assert "--csv encoding=latin-1" in made.stderr
    (tmp_path / "u.csv").write_text("who;Tag;Tag;x;more\n1;2023-05-06;3;a;9\n")
    added = run("ingest", store, tmp_path / "u.csv")
    assert "does not have: more" in added.stderr
    assert "Tag: 1 values did not fit" in added.stderr
    again = tmp_path / "again.sparseq"
    output("create", again, tmp_path / "t.csv", "--user", "who", "--csv", "encoding=latin-1")
    assert "ä" in output("curator", again, "sql", "SELECT x FROM t", "--format", "csv")
