"""Values against an oracle: the sums of questions about moments, and plain DuckDB's counts.

Neighbours detect a dependence on a row; they can't detect an answer that is wrong for everybody in
the same way, for example because the offset of a moment is dropped. So a store of dates and
moments, with NULLs and extremes, is asked for counts under conditions on these, and the exact sum
behind the answer must be DuckDB's count of the same rows, for the question as written. Not every
function means the same in both (`docs/functions.md`); these do, if DuckDB has an answer at all.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator

import duckdb
import pyarrow as pa

import sparseq
from checks.audit.comparison import Finding
from checks.audit.trial import Trial
from checks.language import BOOL, DATE, INT, TIME, Function, functions
from checks.random_expressions import Expressions
from sparseq.store.store import Store

QUESTIONS = 60
_SCHEMA = pa.schema(
    [
        ("who", pa.int64()),
        ("day", pa.date32()),
        ("until", pa.date32()),
        ("at", pa.timestamp("us")),
        ("seen", pa.timestamp("us", "UTC")),
        ("n", pa.int64()),
    ]
)
_COLUMNS = {DATE: ("day", "until"), TIME: ("at", "seen"), INT: ("n",)}
_FIRST = dt.datetime(2023, 12, 30)
_ZONES = ("+00:00", "+02:00", "-05:00", "+05:30", "Z", " Europe/Berlin", "-11:45")


def run(trial: Trial) -> Iterator[Finding]:
    """Ask a store for counts; yield each whose exact sum differs from DuckDB's."""
    rows = _rows(trial.rng)
    plain = duckdb.connect()  # without ICU, a TIMESTAMP is of UTC
    plain.execute("PRAGMA disable_optimizer")  # 2.0.1 has a rule that moves date_trunc's days
    plain.register("t", pa.Table.from_pylist(rows, _SCHEMA))
    expressions = Expressions(trial.rng, _words(), {DATE: [], TIME: [], INT: []})
    with _store(trial.rng, rows) as store:
        for _ in range(QUESTIONS):
            if trial.is_over():
                return
            found = counted(trial, store, plain, _question(trial.rng, expressions))
            if found is not None:
                yield found
                return


def counted(
    trial: Trial, store: Store, plain: duckdb.DuckDBPyConnection, sql: str
) -> Finding | None:
    """Ask a store for one number; return the error of the sum behind it, if there is one."""
    trial.result.questions += 1
    trial.watching.tape.at = None
    seen = trial.watching.seen(store, lambda s: s.sql(sql, fresh=True))
    if seen.public[0] == "raised":
        return Finding("raw error", str(seen.public[1:]), sql)
    if seen.public[0] != "answered" or not seen.steps:  # refused, or known already
        return None
    trial.result.answered += 1
    try:
        ((right,),) = plain.execute(sql).fetchall()
    except duckdb.Error:  # it has no answer; ours is NULL where it fails, row by row
        return None
    step = seen.steps[-1]
    ours = float(step.sums[0][0]) * step.noise[0][2]
    return None if ours == right else Finding("another sum", f"{ours:g}, not {right}", sql)


def _store(rng: random.Random, rows: list[dict[str, object]]) -> Store:
    return sparseq.create(
        None,
        {"t": pa.Table.from_pylist(rows, _SCHEMA)},
        user="who",
        time=rng.choice(("day", "at", "seen")),
        kappa=1024.0,
        seed=rng.randrange(2**31),
        purposes=[sparseq.Questions(in_or_out=True, counts=2.0**20)],
    )


def _rows(rng: random.Random) -> list[dict[str, object]]:
    extremes = (dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999))
    rows: list[dict[str, object]] = []
    for i in range(rng.choice((40, 80, 200))):
        moments = [_FIRST + dt.timedelta(minutes=rng.randrange(5 * 1440)) for _ in range(4)]
        moments = [rng.choice(extremes) if rng.random() < 0.05 else m for m in moments]
        row: dict[str, object] = {
            "who": i // 2,
            "day": moments[0].date(),
            "until": moments[1].date(),
            "at": moments[2],
            "seen": moments[3],
            "n": rng.randrange(-3, 9),
        }
        rows.append({k: None if k != "who" and rng.random() < 0.15 else v for k, v in row.items()})
    return rows


def _words() -> list[Function]:
    """Return the words about moments and truths."""
    types = {BOOL, DATE, TIME}
    return [f for f in functions() if {*f.arguments, f.result} <= types]


def _question(rng: random.Random, expressions: Expressions) -> str:
    if rng.random() < 0.3:
        condition = expressions.term(BOOL, _COLUMNS, rng.choice((1, 2, 2))).sql
    else:
        column = rng.choice((*_COLUMNS[TIME], *_COLUMNS[TIME], *_COLUMNS[DATE]))
        form = rng.choice(
            (
                "{c} {o} {m}",
                "{m} {o} {c}",
                "{c} BETWEEN {m} AND {k}",
                "{c} NOT BETWEEN {m} AND {k}",
                "date_trunc('{u}', {c}) {o} {m}",
                "NOT ({c} {o} {m})",
                "{c} IN ({m}, {k})",
            )
        )
        condition = form.format(
            c=column,
            o=rng.choice(("<", "<=", ">", ">=", "=", "<>", "IS DISTINCT FROM")),
            m=_moment(rng),
            k=_moment(rng),
            u=rng.choice(("hour", "day", "week", "month", "year")),
        )
    return f"SELECT count(*) AS a0 FROM t WHERE {condition}"


def _moment(rng: random.Random) -> str:
    """Return a moment as people write them: with an offset, or a zone, or none; in any type."""
    at = _FIRST + dt.timedelta(minutes=15 * rng.randrange(5 * 96))
    text = f"'{at}{rng.choice((*_ZONES, '', ''))}'"
    return rng.choice(
        (
            text,
            f"TIMESTAMPTZ {text}",
            f"CAST({text} AS TIMESTAMPTZ)",
            f"TIMESTAMP '{at}'",
            f"DATE '{at.date()}'",
            f"TIMESTAMP {text}",
        )
    )
