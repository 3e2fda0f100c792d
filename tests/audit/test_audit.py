"""The audit finds what is planted and, in a short run, nothing else."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from sampled import one_in

import sparseq
from checks.audit import betting, hostile, planted
from checks.audit.__main__ import main
from checks.audit.directed import directed
from checks.audit.planted import LEAKS
from checks.audit.planted_stores import named
from checks.audit.planting import Leak
from checks.audit.seams import Watching
from checks.audit.search import KINDS, search
from checks.language import TYPES, functions
from sparseq.language.functions import FUNCTIONS
from sparseq.language.types import Family
from sparseq.series import ActiveWatch

SHORT, LONG = (math.inf, 2), (600.0, sys.maxsize)
"""Seconds, and worlds: the short audit asks the same on every machine."""


def leaks(quick: Callable[[int, Leak], bool]) -> pytest.MarkDecorator:
    """Try some leaks quickly, and the others among the deep tests."""
    return pytest.mark.parametrize(
        "leak",
        [
            pytest.param(leak, marks=() if quick(i, leak) else pytest.mark.deep, id=leak.name)
            for i, leak in enumerate(LEAKS)
        ],
    )


@leaks(lambda i, leak: i % 6 == 0 and leak.windows != "person" and leak.life != "chains")
def test_a_planted_leak_is_found(leak: Leak) -> None:
    assert named(directed(leak), leak)


@leaks(lambda i, leak: i % 12 == 0 and not (leak.windows or leak.life))
def test_without_it_the_same_questions_find_nothing(leak: Leak) -> None:
    assert directed(leak, planted=False) == []


@pytest.mark.parametrize(
    ("kinds", "length"),
    one_in(3, [(("loads", "meanings"), SHORT), (("poor", "chains"), SHORT), (KINDS, LONG)]),
    ids=["quick", "short", "long"],
)
def test_the_audit_finds_nothing(kinds: tuple[str, ...], length: tuple[float, int]) -> None:
    """The quick one is of stores that are loaded, and of what questions mean."""
    seconds, worlds = length
    result = search(13, seconds, kinds=kinds, worlds=worlds)
    assert [(f.rule, f.detail, f.case, f.reproduction) for f in result.findings] == []
    assert result.cases > 20
    assert result.answered > result.questions / 4


@pytest.mark.parametrize(
    "length", [(math.inf, 1), pytest.param(LONG, marks=pytest.mark.deep)], ids=["short", "long"]
)
def test_the_audit_finds_nothing_in_accounts_by_window(length: tuple[float, int]) -> None:
    """A person's month present or not; by `search(seed, …)` with other seeds, as long as wanted."""
    seconds, worlds = length
    result = search(5, seconds, worlds=worlds, kinds=("windows",))
    assert [(f.rule, f.detail, f.case, f.reproduction) for f in result.findings] == []
    assert result.cases > 50
    assert result.answered > result.questions / 2


@pytest.mark.deep
def test_hostile_texts_find_nothing() -> None:
    assert hostile.findings() == []


def test_every_function_of_the_table_is_among_the_words() -> None:
    """A function that the audit can't write would never be audited.

    Its tables have no lists; what reads those is held against DuckDB in `sql/test_lists.py`.
    """
    words = functions()
    written = " ".join(word.template for word in words).lower()
    missing = {
        f.name
        for f in FUNCTIONS
        if f.form.split("(")[0].split("{")[0].lower() not in written and Family.LIST not in f.takes
    }
    assert missing == set()
    assert {word.result for word in words} == set(TYPES)


def test_a_lower_bound_is_below_the_truth_and_near_it() -> None:
    """99 of 100 bounds hold; these seeds' are no exceptions."""
    rng = np.random.default_rng(3)
    for mu in (0.5, 1.0, 2.0):
        without, with_ = rng.normal(size=(20_000, 3)), rng.normal(size=(20_000, 3))
        with_[:, 1] += mu
        bound = betting.lower_bound(without, with_, 1e-5)
        assert mu - 0.2 < bound.mu <= mu


def test_bets_find_a_false_promise_and_spare_a_true_one() -> None:
    """At most 1 of 100 true promises is found false, at any time: 2 of 200 seeds or fewer."""
    found = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        without, with_ = rng.normal(size=(2_000, 1)), rng.normal(size=(2_000, 1)) + 1
        found += betting.bet(without, with_, 1.0).pairs is not None
    assert found <= 2
    assert betting.bet(without, with_, 2**-0.5).pairs is not None


def test_the_command_ends_with_one_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planted, "LEAKS", LEAKS[3:5])
    monkeypatch.setattr(hostile, "findings", list)
    run = CliRunner().invoke(main, ["--minutes", "0.01", "--processes", "1", "--json"])
    last = json.loads(run.output.splitlines()[-1])
    assert {"cases", "findings", "planted_found", "lower_bounds"} <= last.keys()
    assert len(last["planted_found"]) == last["planted"] == 2
    assert run.exit_code == bool(last["findings"])


def test_an_alarm_goes_on_from_what_is_frozen() -> None:
    """Stores that are given an alarm's answer go on from it, not from what they drew."""

    def begun(seed: int) -> ActiveWatch:
        people = pa.table({"who": list(range(40))})
        con = sparseq.create(
            None,
            {"t": people},
            user="who",
            seed=seed,
            purposes=[sparseq.Questions(in_or_out=True, counts=1, watch=0.1)],
        )
        con.sql("SELECT count(*) FROM t")  # more than anybody has: all have departed
        return ActiveWatch(con, ticks=4)

    assert {begun(seed).tick(1).alarm for seed in range(8)} == {True, False}  # what they draw
    watching, written, watches = Watching(), [], [begun(seed) for seed in range(8)]
    with watching.entered():
        for watch in watches:
            seen = watching.seen(watch.store, lambda _, w=watch: w.tick(1))
            fired = watch.store.backend.database.sql("SELECT fired FROM ledger.alarm").fetchall()
            written.append((seen.public, fired))
            watching.tape.at = 0  # the next ones are given what the first one released
    assert all(one == written[0] for one in written)
