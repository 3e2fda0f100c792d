"""Answers from answers: a log of questions as dashboards ask them, asked of two stores.

    python -m benchmarks reuse --json

Rows are made up (`data.events`, and each person has a region); at first there are 100 days, then a
day arrives each morning (`ingest(..., since=)`). Four analysts look at one overview, and each at a
page of a region, some more than once a day; they drill down, and roll up. One store works as usual;
the other has a cache of exact repeats alone: the same text on the same rows is read back,
everything else is asked again. The truth is that of plain DuckDB on the rows at that time. Charges
are compared if everybody has full weight to the end, since a fading user pays less for the same
question.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import sparseq
from benchmarks.dashboard_log import (
    DAYS,
    KINDS,
    KNOWN_DAYS,
    PEOPLE,
    REGIONS,
    ROWS,
    Asked,
    date_of,
    log,
)
from benchmarks.truth.judge import Judged, judged
from data.events import generate
from sparseq.stream.full_weight import norm_budget_for

ANSWERS, AMPLE, KAPPA = 700, 2000.0, 0.5
LEAST_FREE, MOST_CHARGED, MOST_ERROR, SLACK = 0.5, 0.5, 0.8, 0.01


@dataclass(frozen=True)
class Answered:
    """A store's reply: whether it was free, its charge, and its error."""

    tile: str
    free: bool
    charged: int
    judged: Judged


def made(seed: int) -> pa.Table:
    """Return rows in order of time: who, day, kind, region (of a person), amount."""
    batches = list(generate(users=PEOPLE, rows=ROWS, days=DAYS, activities=6, seed=seed))
    rows = pa.Table.from_batches(batches)
    who = rows["user_id"].to_numpy()
    region = pa.array(np.array(REGIONS)[who % len(REGIONS)])
    kind = rows["activity"].cast(pa.string())
    return pa.table(
        {"who": who, "day": rows["day"], "kind": kind, "region": region, "amount": rows["amount"]}
    )


class Asking:
    """A store that is asked the log, and its replies.

    Args:
        rows: All rows, including later ones.
        seed: Seed of its noise.
        reuse: True if answers follow from answers; else only the same text on the same rows.
        fades: True for the default budget; else everybody has full weight to the end, and the same
            noise.
    """

    def __init__(self, rows: pa.Table, seed: int, reuse: bool, fades: bool = True) -> None:
        self._reuse, self.answers = reuse, list[Answered]()
        self._rows, self._cache = rows, dict[str, Judged]()
        self.day = KNOWN_DAYS
        keys = {"region": list(REGIONS), "kind": list(KINDS)}
        planned = norm_budget_for(ANSWERS)
        ample = 1.0 if fades else AMPLE / planned
        self.con = sparseq.create(
            None,
            {"events": _before(rows, self.day)},
            user="who",
            time="day",
            keys=keys,
            bounds={"amount": (0, 500)},
            seed=seed,
            kappa=KAPPA * ample,
            purposes=[sparseq.Questions(counts=planned * ample)],
        )
        self._plain = duckdb.connect()
        self._plain.register("all_rows", rows)

    def ask(self, one: Asked) -> None:
        """Ask a question, once the rows before its day are there."""
        if one.day > self.day:
            new = _before(self._rows, one.day, self.day)
            self.con.ingest(new, since=date_of(self.day) if self._reuse else None)
            self.day, self._cache = one.day, {}
        before = self._cache.get(one.sql) if not self._reuse else None
        if before is not None:
            self.answers.append(Answered(one.tile, True, 0, before))
            return
        paid = self.charged
        answer = self.con.sql(one.sql, fresh=not self._reuse)
        facts = answer.facts
        free = facts.repeated or facts.follows
        found = {_key(row): (row["x"], row["x_low"], row["x_high"]) for row in answer.rows()}
        truth = dict.fromkeys(found, 0.0) | self._truth(one.sql)
        value, low, high = (np.array([found[k][i] for k in truth], float) for i in range(3))
        low, high = np.nan_to_num(low, nan=-np.inf), np.nan_to_num(high, nan=np.inf)
        good = judged(one.tile, np.array(list(truth.values()), float), (value, low, high))
        self.answers.append(Answered(one.tile, free, self.charged - paid, good))
        self._cache[one.sql] = good

    def _truth(self, sql: str) -> dict[Any, float]:
        text = sql.replace("FROM events", "FROM (SELECT * FROM all_rows WHERE day < ?) AS events")
        found = self._plain.execute(text, [date_of(self.day)])
        names = [column[0] for column in found.description]
        rows = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
        return {_key(row): float(row["x"] or 0.0) for row in rows}

    @property
    def charged(self) -> int:
        """Sum of all charges, in units of the ledger."""
        return int(self.con.stream.accounts.spent.sum())


def _before(rows: pa.Table, day: int, since: int = 0) -> pa.Table:
    days = rows["day"].to_numpy().astype("M8[D]")
    low, high = (np.searchsorted(days, np.datetime64(date_of(d))) for d in (since, day))
    return rows.slice(low, high - low)


def _key(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(
        str(v).removesuffix(" 00:00:00") for name, v in row.items() if not name.startswith("x")
    )


def outcome(seed: int, fades: bool) -> tuple[Asking, Asking]:
    """Ask one log of both stores; return the one that reuses, and the cache."""
    rows = made(seed)
    reuses, repeats = (Asking(rows, seed, reuse, fades) for reuse in (True, False))
    for one in log(seed):
        reuses.ask(one)
        repeats.ask(one)
    return reuses, repeats


def run(seeds: int = 2) -> Iterator[dict[str, Any]]:
    """Yield the figures."""
    done = [outcome(seed, True) for seed in range(seeds)]
    ample = [outcome(seed, False) for seed in range(seeds)]
    ours = [a for reuses, _ in done for a in reuses.answers]
    theirs = [a for _, repeats in done for a in repeats.answers]
    paid = [(a, b) for a, b in zip(ours, theirs, strict=True) if not a.free]
    yield _figure("questions", len(ours) / seeds, "in a log", 500, least=True)
    yield _figure("free", _mean(a.free for a in ours), "of the questions", LEAST_FREE, least=True)
    yield _figure("free_exact", _mean(b.free for b in theirs), "of them, by exact repeats")
    yield _figure("charged", _charged(ample), "x a cache of exact repeats", MOST_CHARGED)
    yield _figure("charged_faded", _charged(done), "x, where who has paid much fades")
    yield _figure("error", *_errors(paid), MOST_ERROR)
    yield _figure("error_all", *_errors(list(zip(ours, theirs, strict=True))))
    inside = _mean(a.judged.inside for a in ours), _mean(b.judged.inside for b in theirs)
    yield _figure("inside", inside[0], "of the answers", min(inside[1] - SLACK, 0.95), least=True)
    yield _figure("inside_exact", inside[1], "of the answers, without")
    ours = [a for reuses, _ in ample for a in reuses.answers]
    theirs = [a for _, repeats in ample for a in repeats.answers]
    yield _figure("inside_ample", _mean(a.judged.inside for a in ours), "of the answers, unfaded")
    yield _figure("inside_exact_ample", _mean(b.judged.inside for b in theirs), "without")
    for tile in sorted({a.tile for a in ours}):
        own = [a for a in ours if a.tile == tile]
        of = [b for b in theirs if b.tile == tile]
        yield _figure(f"tile: {tile}", _mean(a.free for a in own), f"free of {len(own)}") | {
            "charged": sum(a.charged for a in own) / max(sum(b.charged for b in theirs), 1),
            "charged_exact": sum(b.charged for b in of) / max(sum(b.charged for b in theirs), 1),
            "error": float(np.median([a.judged.error for a in own])),
            "error_exact": float(np.median([b.judged.error for b in of])),
            "free_exact": _mean(b.free for b in of),
            "inside": _mean(a.judged.inside for a in own),
            "inside_exact": _mean(b.judged.inside for b in of),
        }


def _charged(done: list[tuple[Asking, Asking]]) -> float:
    return sum(ours.charged for ours, _ in done) / sum(theirs.charged for _, theirs in done)


def _errors(pairs: list[tuple[Answered, Answered]]) -> tuple[float, str]:
    own, other = (float(np.median([a.judged.error for a in of])) for of in zip(*pairs, strict=True))
    return own / other, f"x without, of {len(pairs):,}: {own:.3g} beside {other:.3g}"


def _mean(truths: Iterator[bool] | Any) -> float:
    return float(np.mean(list(truths)))


def _figure(
    name: str, figure: float, unit: str, limit: float | None = None, least: bool = False
) -> dict[str, Any]:
    sign = ">=" if least else "<="
    ok = limit is None or (figure >= limit if least else figure <= limit)
    said = None if limit is None else f"{sign} {limit:g}"
    return {
        "name": f"reuse.{name}",
        "figure": float(figure),
        "unit": unit,
        "limit": said,
        "ok": bool(ok),
    }
