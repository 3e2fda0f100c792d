"""One object states a promise, and all that states it says the same."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path
from statistics import NormalDist
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import sparseq
from sparseq.cli.app import sparseq as command_line
from sparseq.cli.budget import budget_text
from sparseq.cli.card import card_text
from sparseq.server.http import markup
from sparseq.store.promise_statement import Level, guarantee_table

PAGE = Path(__file__).parents[2] / "docs" / "guarantee.md"
DAYS = [dt.date(2024, 1, 3), dt.date(2024, 1, 20), dt.date(2024, 2, 11), dt.date(2024, 3, 5)]
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "window": {"window": "month", "time": "day"},
    "window with cap": {"window": ("month", 2.0), "time": "day"},
    "found keys": {"purposes": [sparseq.Questions(keys_delta=1e-7)]},
    "watch": {"purposes": [sparseq.Questions(in_or_out=True, counts=40, watch=0.25)]},
    "population": {},
}


def store(kind: str, path: Path) -> sparseq.Store:
    rows = pa.table({"who": [1, 1, 2, 2], "day": DAYS})
    more = dict(KINDS[kind])
    if kind == "population":
        command = ["population", "create", str(path / "all"), "--kappa", "2"]
        made = CliRunner().invoke(command_line, command)
        assert made.exit_code == 0, made.output
        more |= {"population": path / "all", "kappa": 0.5}
    return sparseq.create(path / "s.sparseq", {"t": rows}, user="who", **more)


@pytest.mark.parametrize("kind", KINDS)
def test_all_that_states_a_promise_says_the_same(kind: str, tmp_path: Path) -> None:
    with store(kind, tmp_path) as con:
        said, facts, card = con.promise.statement, con.promise.facts(), con.promise.card()
    unit = "one who in one month" if "window" in kind else "one who"
    assert said.unit == unit
    assert facts["statement"] == said.to_dict()
    assert card["privacy_loss"]["privacy_unit"] == f"all rows of {unit}"
    assert card["privacy_loss"]["right_guess"] == said.guess
    assert f"of {unit} at most" in card["so_far"]["spent"]
    shown = " ".join(budget_text(facts).split())
    assert said.guess in shown
    assert said.several in shown
    assert said.several in card_text(card, "s")
    page = " ".join(markup.budget(facts, [], "").split())
    assert said.several[1:] in page
    assert unit in page


def test_levels_of_units_are_those_of_the_theorems(tmp_path: Path) -> None:
    with store("window", tmp_path) as con:
        said = con.promise.statement
    phi = NormalDist().cdf
    assert said.level.right_guess == pytest.approx(phi(0.5))
    assert (said.units, said.apart.kappa, said.together.kappa) == (12, 6.0, 72.0)
    assert said.apart.right_guess == pytest.approx(phi(math.sqrt(12) / 2), abs=1e-9)
    assert said.apart.right_guess > 0.958
    assert said.accounts(4) == "4 accounts, each of one who in one month"
    assert Level.of(0.5, gaussian=False, keys_delta=0.0).right_guess == pytest.approx(0.75)
    assert Level.of(50.0, gaussian=False, keys_delta=0.0).right_guess <= 1


def test_the_table_of_the_page_is_made_of_it() -> None:
    text = PAGE.read_text("utf-8")
    table = text.partition("<!-- statement -->")[2].partition("<!-- end of statement -->")[0]
    assert table.strip() == guarantee_table()
