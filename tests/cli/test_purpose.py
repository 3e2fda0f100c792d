"""`purpose`: a series gets a part of what people have left, and is listed; or nobody is charged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_runs import output, run

import sparseq
from sparseq.cli.purpose_text import PurposeText, purpose_of, written
from sparseq.ledger.purposes import Purpose

COUNT = "SELECT count(DISTINCT who) AS n FROM visits"


@pytest.fixture(scope="session")
def new(folder: Path) -> Path:
    """A store in which people are weighted, with nothing asked yet."""
    path = folder / "weighted.sparseq"
    output("create", path, folder / "visits.csv", "--user", "who", "--seed", "1")
    return path


@pytest.fixture
def weighted(new: Path, tmp_path: Path) -> Path:
    path = tmp_path / "s.sparseq"
    shutil.copy(new, path)
    return path


def listed(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(output("purpose", "list", path, "--format", "json"))
    return found


def test_a_series_gets_a_share_of_what_is_left(weighted: Path) -> None:
    output("sql", weighted, COUNT)
    with sparseq.connect(weighted) as store:
        before = store.stream.accounts.left(np.arange(40, dtype=np.int32))
    text = output("purpose", "add", weighted, "queries/weekly.sql=25%,ticks=52")
    assert "weekly: 25 % of what everybody had left for questions" in text
    assert "for a count of people, for 52 ticks" in text
    assert "questions" in text
    with sparseq.connect(weighted) as store:
        after = store.stream.accounts.left(np.arange(40, dtype=np.int32))
        (part,) = store.promise.purposes
    assert (before - after == before // 4).all()
    assert f"sigma {part.budget().sigma_0:.5g}" in text
    (kept,) = listed(weighted)
    assert (kept["name"], kept["share"], kept["ticks"]) == ("weekly", 0.25, 52)
    assert (kept["came"], kept["number"]) == (2, 0)
    assert "weekly has 25% of what everybody had left" in output("history", weighted, "--all")


def test_a_later_one_gets_of_what_the_earlier_left(weighted: Path) -> None:
    """25 % and then 25 %: the second has three quarters of the first."""
    for name in ("a", "b"):
        output("purpose", "add", weighted, f"{name}=25%,ticks=10")
    a, b = listed(weighted)
    assert (a["kappa"], b["kappa"]) == pytest.approx((0.125, 0.125 * 0.75), rel=1e-6)
    with sparseq.connect(weighted) as store:
        assert store.stream.course is not None
        assert store.stream.accounts.left(np.array([0], np.int32))[0] == pytest.approx(
            48 * 2**24 * 0.75**2, rel=1e-6
        )


def test_the_list_has_public_facts_and_what_each_was_made_with(
    folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "s.sparseq"
    said = "daily=30%,ticks=30,counts=12,strategy=news:0.16,28,1,left-out=2%"
    output("create", path, folder / "visits.csv", "--user", "who", "--for", said)
    output("purpose", "add", path, "weekly=25%,ticks=4,counts=3,forecast=5%,cap=10%,off=0.4")
    head, _, daily, weekly = output("purpose", "list", path).splitlines()
    assert head.split("  ")[0] == "series"
    with sparseq.connect(path) as store:
        for p, row in zip(store.promise.purposes, (daily, weekly), strict=True):
            assert row.split()[0] == p.name
            assert f"{p.budget().sigma_0:.5g}" in row.split()
    assert "ticks=30,counts=12,strategy=news:0.16,28,1,left-out=2%" in daily
    assert "25 % of what was left" in weekly
    assert "ticks=4,counts=3,forecast=5%,cap=10%,off=0.4" in weekly
    assert [p["name"] for p in listed(path)] == ["daily", "weekly"]


def test_without_any_all_is_for_questions(weighted: Path) -> None:
    assert output("purpose", "list", weighted) == "all budgets are for questions\n"
    assert listed(weighted) == []


def test_people_who_come_later_have_parts_too(weighted: Path, tmp_path: Path) -> None:
    output("purpose", "add", weighted, "weekly=25%,ticks=4")
    more = tmp_path / "more.csv"
    more.write_text("who,day,page,seconds,late\nnew,2024-02-01,home,3.5,true\n")
    output("ingest", weighted, more)
    with sparseq.connect(weighted) as store:
        whole = [accounts.budgets[-1] for _, accounts in store.stream.pots.items()]
        (part,) = store.promise.purposes
    assert whole[0] == pytest.approx(0.75 * 48 * 2**24, rel=1e-6)
    assert whole[1] == pytest.approx(part.counts * 2**24, rel=1e-6)


@pytest.mark.parametrize("how", ["in-or-out", "halt"])
def test_of_a_store_in_which_people_stay_out_nothing_is_parted_later(
    folder: Path, tmp_path: Path, how: str
) -> None:
    path = tmp_path / "s.sparseq"
    output("create", path, folder / "visits.csv", "--user", "who", "--for", f"questions,{how}")
    added = run("purpose", "add", path, "weekly=25%,ticks=4")
    if how == "halt":
        assert added.exit_code == 2
        assert "say what a store is for when it is made: create --for" in added.stderr
    else:
        assert added.exit_code == 0
    assert len(listed(path)) == (how != "halt")


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ("weekly", "'weekly' has no share. Write weekly=20%,ticks=365."),
        ("weekly=20%", "weekly has no end to plan for. Write weekly=20%,ticks=365"),
        ("weekly=20,ticks=4", "'20' is 2000 %"),
        ("weekly=0%,ticks=4", "the share of weekly is 0"),
        ("weekly=20%,ticks=4,forecast=5%,strategy=news", "forecasts or a strategy"),
        ("weekly=20%,ticks=4,counts=many", "counts=many is not a number"),
        ("weekly=20%,ticks=4,strategy=nonsense", "nonsense"),
        ("weekly=100%,ticks=4", "99%"),
        ("watch=5%", "watch"),
        ("questions=40%", "questions"),
        ("a/b=20%,ticks=4", "the name 'a/b' is not valid for a series"),
    ],
)
def test_what_makes_no_sense_is_told_and_charges_nobody(
    weighted: Path, said: str, says: str
) -> None:
    refused = run("purpose", "add", weighted, said)
    assert refused.exit_code == 2
    assert says in refused.stderr
    with sparseq.connect(weighted) as store:
        assert store.released == 0
        assert store.promise.purposes == ()
        assert not store.stream.accounts.spent.any()


def test_a_name_is_taken_once(weighted: Path) -> None:
    output("purpose", "add", weighted, "weekly=20%,ticks=4")
    refused = run("purpose", "add", weighted, "weekly=20%,ticks=4")
    assert refused.exit_code == 2
    assert "two series are called 'weekly'" in refused.stderr
    assert len(listed(weighted)) == 1


def test_there_has_to_be_a_store(tmp_path: Path) -> None:
    for words in (["list", tmp_path / "none"], ["add", tmp_path / "none", "a=20%,ticks=4"]):
        refused = run("purpose", *words)
        assert refused.exit_code == 4
        assert "there is no store" in refused.stderr


@pytest.mark.parametrize(
    "purpose",
    [
        Purpose("a", 0.2, 7),
        Purpose("a", 0.125, 7, 3.25),
        Purpose("a", 0.2, 7, 3.0, forecast=0.05, cap=0.35, season=7, off=0.46),
        Purpose("a", 0.2, 7, 3.0, forecast=0.125),
        Purpose("a", 0.2, 7, 3.0, strategy="1,-0.08,-0.04", left_out=0.015),
        Purpose("a", 0.2, 7, strategy="window:28"),
    ],
)
def test_what_is_written_is_read_as_it_was(purpose: Purpose) -> None:
    text = written(purpose, f"{100 * purpose.share:g}%")
    assert purpose_of(PurposeText().convert(text, None, None)) == purpose
