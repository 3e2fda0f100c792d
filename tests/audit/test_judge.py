"""The judge finds what does not fit in histories written by hand, and nothing in one that does."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from checks.judge.check import RULES, UNITS, History, findings, repeated

COUNT, SUM = "SELECT count(*) AS n FROM t", "SELECT sum(x) AS s FROM t"
PARTS = {
    COUNT: [{"column": "n", "keys": [], "each": "SELECT who, count(*) FROM t GROUP BY who"}],
    SUM: [{"column": "s", "keys": [], "each": "SELECT who, sum(x) FROM t GROUP BY who"}],
}
SIGMA = 10.0
"""Of a scale of 1: kappa 0.5, and a budget of 100."""
Facts = dict[str, Any]


def asked(at: float, op: int, sql: str, request: str | None = None, name: str = "ada") -> Facts:
    return {
        "at": at,
        "what": "ask",
        "op": op,
        "name": name,
        "sql": sql,
        "parts": PARTS[sql],
        "request": request,
        "fresh": False,
    }


def answer(at: float, op: int, release: int | None, row: Facts, repeat: bool = False) -> Facts:
    return {
        "at": at,
        "what": "answer",
        "op": op,
        "release": release,
        "rows": [row],
        "repeat": repeat,
        "follows": False,
    }


def paid(person: str, rows: int, *units: float) -> Facts:
    charges = [{"release": n, "units": int(u * UNITS)} for n, u in enumerate(units, 1) if u]
    spent = sum(charge["units"] for charge in charges)
    return {
        "person": person,
        "rows": rows,
        "budget": 100 * UNITS,
        "spent": spent,
        "charges": charges,
    }


def released(number: int, sql: str, row: Facts, request: str | None = None) -> Facts:
    return {
        "release": number,
        "request": request,
        "query": sql,
        "sigma": [SIGMA],
        "scale": [],
        "rows": [row],
    }


HISTORY: list[Facts] = [
    {"at": 0, "what": "promise", "kappa": 0.5, "norm_budget": 100.0, "quotas": {"ben": 1}},
    {
        "at": 0,
        "what": "bring",
        "op": 1,
        "rows": [[1, 0.5], [1, 2.5], [2, 1.0]],
        "columns": {"who": "BIGINT", "x": "DOUBLE"},
    },
    {"at": 1, "what": "brought", "op": 1},
    asked(2, 2, COUNT),
    asked(2.5, 3, SUM, "client/ben/1", "ben"),
    answer(3, 2, 1, {"n": 9}),
    {"at": 3.5, "what": "lost", "op": 3, "error": "reset"},
    {"at": 3.6, "what": "event", "said": "kill -9"},
    asked(4, 4, COUNT),
    answer(5, 4, 1, {"n": 9}, repeat=True),
    {"at": 6, "what": "bring", "op": 5, "rows": [[1, 1.0], [3, 4.0]]},
    {"at": 7, "what": "brought", "op": 5},
    asked(8, 6, COUNT),
    answer(9, 6, 3, {"n": -2}),
    asked(10, 7, SUM, "client/ben/1", "ben"),
    answer(11, 7, 2, {"s": 12.25}, repeat=True),
    asked(12, 8, SUM, "client/ben/2", "ben"),
    {"at": 13, "what": "refusal", "op": 8, "why": "quota"},
    asked(14, 9, COUNT),
    answer(15, 9, 3, {"n": -2}, repeat=True),
]
"""A count, a sum whose answer was lost and is read back, rows, and the count of all."""
EXPORT: Facts = {
    "budget": {"kappa": 0.5, "norm_budget": 100.0, "losses": [], "weighted": None},
    "releases": [
        released(1, COUNT, {"n": 9, "n_error": 20.0}),
        released(2, SUM, {"s": 12.25, "s_error": 20.0}, "client/ben/1"),
        released(3, COUNT, {"n": -2, "n_error": 20.0}),
    ],
    "people": [paid("1", 3, 4, 9, 9), paid("2", 1, 1, 1, 1), paid("3", 1, 0, 0, 1)],
}


def rules(history: list[Facts], export: Facts) -> set[str]:
    read = History.read(json.dumps(line) for line in history)
    return {finding.rule for finding in findings(read, export)}


def test_a_history_that_fits() -> None:
    assert rules(HISTORY, EXPORT) == set()


def _line(op: int, what: str, history: list[Facts]) -> Facts:
    return next(line for line in history if line.get("op") == op and line["what"] == what)


def lost(history: list[Facts], export: Facts) -> None:
    export["releases"].pop()
    export["people"] = [paid("1", 3, 4, 9), paid("2", 1, 1, 1), paid("3", 1)]


def changed(history: list[Facts], export: Facts) -> None:
    export["releases"][2]["rows"] = [{"n": -1}]


def another(history: list[Facts], export: Facts) -> None:
    _line(7, "answer", history)["release"] = 3


def new_twice(history: list[Facts], export: Facts) -> None:
    _line(9, "answer", history)["repeat"] = False


def late(history: list[Facts], export: Facts) -> None:
    """Release 1 was asked for when release 2 was known."""
    for op, what, at in ((7, "ask", 1.1), (7, "answer", 1.2)):
        _line(op, what, history)["at"] = at


def unasked(history: list[Facts], export: Facts) -> None:
    history[:] = [line for line in history if line.get("op") not in (3, 7, 8)]


def off(history: list[Facts], export: Facts) -> None:
    export["releases"][1]["rows"] = [{"s": 112.25}]
    _line(7, "answer", history)["rows"] = [{"s": 112.25}]


def less(history: list[Facts], export: Facts) -> None:
    export["people"][1] = paid("2", 1, 1, 1 - 1 / UNITS, 1)


def nothing(history: list[Facts], export: Facts) -> None:
    export["people"][0] = paid("1", 3, 4, 0, 9)


def more(history: list[Facts], export: Facts) -> None:
    export["people"][1] = paid("2", 1, 1, 2, 1)


def old_data(history: list[Facts], export: Facts) -> None:
    """Release 3, and what was paid for it, as if no rows had come."""
    export["people"] = [paid("1", 3, 4, 9, 4), paid("2", 1, 1, 1, 1), paid("3", 1)]


def old_answer(history: list[Facts], export: Facts) -> None:
    _line(9, "answer", history).update(release=1, rows=[{"n": 9}])


def new_data(history: list[Facts], export: Facts) -> None:
    export["people"] = [paid("1", 3, 9, 9, 9), paid("2", 1, 1, 1, 1), paid("3", 1, 1, 0, 1)]


def unsummed(history: list[Facts], export: Facts) -> None:
    export["people"][2]["spent"] -= 1


def overdrawn(history: list[Facts], export: Facts) -> None:
    export["people"][2]["budget"] = 1


def without(history: list[Facts], export: Facts) -> None:
    export["people"][2]["rows"] = 0


def too_many(history: list[Facts], export: Facts) -> None:
    for op in (2, 4, 6, 9):
        _line(op, "ask", history)["name"] = "ben"


def too_few(history: list[Facts], export: Facts) -> None:
    history[0]["quotas"]["ben"] = 3


def weaker(history: list[Facts], export: Facts) -> None:
    export["budget"]["kappa"] = 1.0


def hole(history: list[Facts], export: Facts) -> None:
    export["budget"]["losses"] = [{"after": 2}]


def not_opened(history: list[Facts], export: Facts) -> None:
    export["error"] = "the ledger lacks a release"


CASES: list[tuple[Callable[[list[Facts], Facts], None], set[str]]] = [
    (lost, {"lost answer"}),
    (changed, {"two values"}),
    (another, {"two answers"}),
    (new_twice, {"two answers"}),
    (late, {"order"}),
    (unasked, {"nobody asked"}),
    (off, {"wrong answer"}),
    (less, {"not covered"}),
    (nothing, {"not covered"}),
    (more, {"overcharged"}),
    (old_data, {"stale"}),
    (old_answer, {"stale"}),
    (new_data, {"too early"}),
    (unsummed, {"account"}),
    (overdrawn, {"account"}),
    (without, {"rows"}),
    (too_many, {"quota"}),
    (too_few, {"quota"}),
    (weaker, {"promise"}),
    (hole, {"promise"}),
    (not_opened, {"lost store"}),
]


@pytest.mark.parametrize(("change", "found"), CASES, ids=lambda c: getattr(c, "__name__", ""))
def test_what_does_not_fit_is_found(
    change: Callable[[list[Facts], Facts], None], found: set[str]
) -> None:
    history, export = copy.deepcopy(HISTORY), copy.deepcopy(EXPORT)
    change(history, export)
    assert rules(history, export) == found


def test_who_can_not_pay_is_left_out_and_not_in_the_answer() -> None:
    """Person 1 has paid for many sums, and has less left than the last one costs."""
    history = HISTORY[:3]
    releases, units = [], []
    for number in range(1, 13):
        row = {"s": 4.0 + 7 * (-1) ** number - 3 * (number == 12)}
        request = f"client/ada/{number}"
        op = 10 * number
        history = [*history, asked(op, op, SUM, request), answer(op + 1, op, number, row)]
        releases.append(released(number, SUM, row, request))
        units.append(9.0 * (number < 12))
    people = [paid("1", 2, *units), paid("2", 1, *[1.0] * 12)]
    export = {**EXPORT, "releases": releases, "people": people}
    assert rules(history, export) == set()
    people[0] = paid("1", 2, *units[:10], 0.0, 0.0)  # it could have paid for the eleventh
    assert rules(history, export) == {"not covered"}


def test_noise_that_is_drawn_again_or_too_small_is_found() -> None:
    drawn = [(n, (n * 7919 % 101 - 50) / 64 + 2.0**-20, 1.0) for n in range(1, 9)]
    assert list(repeated(drawn)) == []
    again = [(n + 20, x, sigma) for n, x, sigma in drawn[2:5]]
    (found,) = repeated([*drawn, *again])
    assert found[:2] == (5, 25)
    assert found[2] == pytest.approx(60)
    history, releases = HISTORY[:3], []
    for number in range(1, 61):
        row = {"n": 3}
        op = 10 * number
        history = [*history, asked(op, op, COUNT, str(number)), answer(op + 1, op, number, row)]
        releases.append(released(number, COUNT, row, str(number)))
    people = [paid("1", 2, *[4.0] * 25), paid("2", 1, *[1.0] * 60)]
    export = {**EXPORT, "releases": releases, "people": people}
    assert rules(history, export) == {"noise", "noise twice"}


def test_every_rule_is_found_by_a_test() -> None:
    assert {rule for _, found in CASES for rule in found} | {"noise", "noise twice"} == set(RULES)


def test_the_judge_knows_no_module_of_sparseq(tmp_path: Path) -> None:
    """The command judges where nobody can import sparseq."""
    less([], bad := copy.deepcopy(EXPORT))
    (tmp_path / "history").write_text("\n".join(map(json.dumps, HISTORY)))
    (tmp_path / "export").write_text(json.dumps(bad))
    program = (
        "import runpy, sys; sys.modules['sparseq'] = None; "
        "runpy.run_module('checks.judge', run_name='__main__')"
    )
    command = [sys.executable, "-c", program, "check", tmp_path / "history", tmp_path / "export"]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("not covered: release 2: 2 paid 16777215 units of 16777216 (")


@pytest.mark.deep
@pytest.mark.parametrize("lake", [False, True], ids=["file", "lake"])
def test_a_real_life_fits(tmp_path: Path, lake: bool) -> None:
    """Servers that are killed, second drivers, copies that are put back: nothing is found."""
    pytest.importorskip("uvicorn")
    pytest.importorskip("psycopg")
    if lake:
        pytest.importorskip("deltalake")
    from checks.judge.check import judged
    from checks.judge.workload import Life

    assert judged(*Life(tmp_path, seed=3, lake=lake).live()) == []


@pytest.mark.deep
def test_planted_faults_are_found(tmp_path: Path) -> None:
    """Each one breaks the process that it serves in; the judge sees clients and the export."""
    pytest.importorskip("uvicorn")
    pytest.importorskip("psycopg")
    pytest.importorskip("deltalake")
    from checks.judge.planted import FAULTS, found_in

    for number, fault in enumerate(FAULTS):
        (tmp_path / str(number)).mkdir()
        assert found_in(fault, tmp_path / str(number)), fault.name
