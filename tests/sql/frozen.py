"""What every question of the list is lowered to: digests in golden/frozen.txt.

    export PYTHONPATH=.:tests
    python tests/sql/frozen.py [FAMILY …]   write the digests of all questions, or of some families
    python tests/sql/frozen.py --show REF   print both texts of what differs from a commit's file

A reading has six parts: what it is about, the SQL that is run, the groups, the exact sums of groups
that are not empty, the answer at noise that is fixed, and the notes. A rule about groups that
leaves out empty ones changes the groups and the answer; a rewriting of SQL changes the SQL alone.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import hashlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from frozen_questions import QUESTIONS, STORES, Frozen, questions

import sparseq
from benchmarks.written.check import lowered
from sparseq.base.errors import ParameterError, QueryRefused
from sparseq.question.plan import Domain, Measure, Options, Plan, Query, calibrate
from sparseq.released.outputs import Intervals, Measurements
from sparseq.released.render import key_columns, render

HERE = Path(__file__).parent
GOLDEN = HERE / "golden" / "frozen.txt"
SIGMAS = 4.0
PATIENCE = 600.0
"""Seconds for what is asked of public tables: on a busy machine some take more than usual."""


class EngineFailed(AssertionError):
    """The engine fails on rows of a person, who then contributes nothing: a fault of ours."""


Reading = dict[str, str]
"""The parts of what a question is lowered to, each a text."""


def read(con: sparseq.Store, question: Frozen) -> Reading:
    """Return what a question is lowered to."""
    try:
        query = lowered(con, question.sql)
        if query.asks_nobody:
            return {"kind": "public", "shown": _text(query.outputs.rows.to_pylist())}
        plan = calibrate(query, con.guarantee, Options())
    except (QueryRefused, ParameterError) as refused:
        return {"kind": "refused", "shown": str(refused)}
    engine = con.stream.engine
    found = engine.contributions(plan, len(con.stream.accounts)).measures
    for failure in engine.take_failures():
        raise EngineFailed(f"user {failure.user}: {failure.error}: {question.sql}")
    totals = [
        (m.totals * n.granularity).reshape(-1, asked.bins)
        for m, n, asked in zip(found, plan.noise, query.measures, strict=True)
    ]
    return {
        "kind": f"d={query.coordinates}",
        "sql": _sql_of(query),
        "groups": "\n".join(map(_groups_of, query.domains)),
        "sums": _sums_of(query, totals),
        "shown": _text(render(plan, _noised(plan, totals, question)).to_pylist()),
        "notes": _text([query.notes, query.left_out]),
    }


def _sql_of(query: Query) -> str:
    relation = query.relation
    lines = [relation.sql, f"WHERE {relation.where}", f"user {relation.user}"]
    lines += [f"cap {cap.name} {cap.most}: {cap.sql}" for cap in relation.caps]
    lines += [f"key {d.name}: {d.key and d.key.sql}: {d.position.sql}" for d in query.domains]
    return "\n".join(lines + [_measure(measure) for measure in query.measures])


def _measure(m: Measure) -> str:
    cells = m.value and m.value.sql, m.bin and m.bin.sql
    return _text([m.kind.value, m.label, *cells, m.scale, m.edges, m.bounds, m.role, m.step])


def _groups_of(domain: Domain) -> str:
    return _text([domain.name, domain.keys, domain.rest, list(domain.values)])


def _sums_of(query: Query, totals: list[Any]) -> str:
    """Return the sums by group, of groups that are not empty."""
    some = np.zeros(query.groups, np.bool_)
    for total in totals:
        some |= total.any(axis=1)
    places = np.flatnonzero(some)
    keys = [column[places].tolist() for column in key_columns(query.domains)]
    sums = [total[places].tolist() for total in totals]
    lines = [_text(row) for row in zip(*keys, *sums, strict=True)]
    return "\n".join(sorted(lines))


def _noised(plan: Plan, totals: list[Any], question: Frozen) -> Measurements:
    """Return sums with noise that follows from the question, and intervals of four sigmas."""
    rng = np.random.default_rng(int(question.id.split()[1], 16))
    sigmas = [noise.sigma for noise in plan.noise]
    noised = [
        total + sigma * rng.integers(-2, 3, total.shape)
        for total, sigma in zip(totals, sigmas, strict=True)
    ]
    bounds = [SIGMAS * sigma for sigma in sigmas]
    ends = [(m - b, m + b) for m, b in zip(noised, bounds, strict=True)]
    weighted = Intervals(
        [low for low, _ in ends],
        [high for _, high in ends],
        noised,
        sigmas,
        [np.zeros_like(m) for m in noised],
        [SIGMAS] * len(sigmas),
    )
    keys = key_columns(plan.query.domains)
    return Measurements(noised, bounds, keys, plan.query.groups, weighted)


def _text(value: Any) -> str:
    """Return a value as text; floats with 9 digits, which are the same on any machine."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, float):
        return format(value + 0.0, ".9g")
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple | np.ndarray):
        inner = (", " if len(value) < 200 or isinstance(value, tuple) else "\n").join
        return "[" + inner(map(_text, value)) + "]"
    if isinstance(value, int | str | Decimal):
        return repr(value)
    return str(value)


def digests(reading: Reading) -> str:
    """Return a reading as one line: its kind, and of each part seven letters."""
    parts = [_digest(text) for part, text in reading.items() if part != "kind"]
    return " ".join([reading["kind"], *parts])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:7]


def readings(asked: Iterable[Frozen]) -> Iterator[tuple[Frozen, Reading]]:
    """Yield questions of one family or several, in order, each with its reading."""
    for family, some in itertools.groupby(asked, key=lambda question: question.family):
        with contextlib.closing(STORES[family]()) as con:
            con.lowering.public.patience = PATIENCE
            for question in some:
                yield question, read(con, question)


def every_question() -> list[Frozen]:
    """Return the whole list."""
    return [question for family in QUESTIONS for question in questions(family)]


def golden(path: Path = GOLDEN) -> dict[str, str]:
    """Return the digests of the file, by the questions' identifiers."""
    lines = (line.split(" ", 2) for line in path.read_text().splitlines())
    return {f"{family} {told}": rest for family, told, rest in lines}


def write(families: list[str]) -> None:
    """Write the digests of some families' questions; those of the others stay."""
    known = golden() if GOLDEN.exists() else {}
    for family in families:
        start = time.process_time()
        known |= {q.id: digests(reading) for q, reading in readings(questions(family))}
        lines = [f"{q.id} {known[q.id]}\n" for q in every_question() if q.id in known]
        GOLDEN.write_text("".join(lines))
        seconds = time.process_time() - start
        print(f"{family}: {len(questions(family))} questions, {seconds:.0f} s of CPU", flush=True)


def show(ref: str) -> None:
    """Print both texts of every question whose digests are not those of a commit."""
    root = HERE.parent.parent
    text = subprocess.run(
        ["git", "show", f"{ref}:tests/sql/golden/frozen.txt"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    with tempfile.TemporaryDirectory() as folder:
        there, old = Path(folder, "tree"), Path(folder, "frozen.txt")
        old.write_text(text)
        before, now = golden(old), golden()
        asked = [q for q in every_question() if before.get(q.id) not in (None, now.get(q.id))]
        print(f"{len(asked)} questions differ, {len(now.keys() - before.keys())} are new")
        git = ["git", "worktree", "add", "--quiet", "--detach", str(there), ref]
        subprocess.run(git, cwd=root, check=True)
        try:
            texts = _read_there(there, [q.id for q in asked])
        finally:
            git = ["git", "worktree", "remove", "--force", str(there)]
            subprocess.run(git, cwd=root, check=True)
    for question, reading in readings(asked):
        print(f"\n== {question.id}\n{question.sql}")
        for part in dict.fromkeys([*texts[question.id], *reading]):
            _print_change(part, texts[question.id].get(part, ""), reading.get(part, ""))


def _read_there(tree: Path, ids: list[str]) -> dict[str, Reading]:
    environment = {**os.environ, "PYTHONPATH": f"{tree}{os.pathsep}{tree / 'tests'}"}
    command = [sys.executable, "tests/sql/frozen.py", "--texts"]
    found = subprocess.run(
        command,
        cwd=tree,
        env=environment,
        input="\n".join(ids),
        text=True,
        check=True,
        stdout=subprocess.PIPE,
    )
    texts: dict[str, Reading] = json.loads(found.stdout)
    return texts


def _print_change(part: str, old: str, new: str) -> None:
    if old != new:
        print(f"-- {part}")
        for line in difflib.ndiff(old.splitlines()[:200], new.splitlines()[:200]):
            if not line.startswith(("  ", "?")):
                print(line)


def main() -> None:
    """Write the digests, or show what changed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("families", nargs="*", choices=[*QUESTIONS, []], metavar="FAMILY")
    parser.add_argument("--show", metavar="REF")
    parser.add_argument("--texts", action="store_true", help="of identifiers on stdin, as JSON")
    chosen = parser.parse_args()
    if chosen.texts:
        wanted = set(sys.stdin.read().splitlines())
        asked = [question for question in every_question() if question.id in wanted]
        json.dump({question.id: reading for question, reading in readings(asked)}, sys.stdout)
    elif chosen.show:
        show(chosen.show)
    else:
        write(chosen.families or list(QUESTIONS))


if __name__ == "__main__":
    sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
    main()
