"""Query logs for `sparseq replay`, made by a seed.

    python queries/logs/make.py cdnow OUT.jsonl.gz [--lines 2400] [--seed 0]
    python queries/logs/make.py events OUT.jsonl.gz [--lines 100000] [--days 365] [--seed 0]
    python queries/logs/make.py mixed OUT.csv.zst [--lines 100000] [--days 365] [--bad 0.33]

OUT is JSON Lines or CSV, plain or compressed, by its name: .jsonl or .csv, and then .gz or .zst.
`cdnow` is a year and a half of a shop's analysts: every morning's dashboard, then drill-downs into
whatever looked odd, weekly reports, and now and then a question that is refused, or a slip of the
pen. Who asks what next hangs on what they have seen; a log holds what they asked. `events` is one
dashboard for data/events.py, asked again and again; `mixed` is many people's questions about the
same data, a share (--bad) of them refused or not even SQL. The same arguments give the same bytes.
"""

from __future__ import annotations

import codecs
import csv
import datetime as dt
import gzip
import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

FIRST, LAST = dt.date(1997, 1, 1), dt.date(1998, 6, 30)
Line = dict[str, Any]


def date(day: dt.date) -> str:
    return f"DATE '{day}'"


def daily(day: dt.date) -> list[Line]:
    """The morning's dashboard about the day before."""
    count = "SELECT count(DISTINCT customer_id) AS buyers FROM purchases WHERE date = :day"
    return [
        {"analyst": "dashboard", "sql": count, "parameters": {"day": day}},
        {
            "analyst": "dashboard",
            "sql": "SELECT count(*) AS orders, sum(least(greatest(amount, 0), 200)) AS revenue "
            f"FROM purchases WHERE date = {date(day)}",
        },
    ]


def weekly(day: dt.date) -> list[Line]:
    """Monday's report."""
    span = f"date >= {date(day - dt.timedelta(7))} AND date < {date(day)}"
    return [
        {
            "analyst": "report",
            "sql": "SELECT avg(least(greatest(amount, 0), 200)) AS per_order FROM purchases "
            f"WHERE {span}",
        },
        {
            "analyst": "report",
            "sql": f"SELECT date, count(*) AS orders FROM purchases WHERE {span} "
            "GROUP BY date ORDER BY date",
        },
        {
            "analyst": "report",
            "sql": "SELECT histogram(amount, [0, 10, 20, 50, 100, 200]) AS orders FROM purchases "
            f"WHERE {span}",
            "options": {"confidence": 0.9},
        },
    ]


def drill_down(day: dt.date, rng: random.Random) -> list[Line]:
    """Somebody saw something: large orders, then how large, then since when."""
    least = rng.choice([30, 50, 80, 100])
    back = day - dt.timedelta(rng.choice([14, 28]))
    questions = [
        f"SELECT count(*) AS large FROM purchases WHERE date = {date(day)} AND amount > {least}",
        "SELECT quantile(amount, 0.9, [0, 10, 20, 40, 80, 160, 320]) AS q FROM purchases "
        f"WHERE date BETWEEN {date(back)} AND {date(day)}",
        f"SELECT count(DISTINCT customer_id) AS people FROM purchases WHERE amount > {least} "
        f"AND date BETWEEN {date(back)} AND {date(day)}",
        "SELECT n, count(*) AS customers FROM (SELECT customer_id, count(*) AS n FROM purchases "
        f"WHERE date >= {date(back)} GROUP BY customer_id) WHERE n BETWEEN 1 AND 5 GROUP BY n",
    ]
    who = rng.choice(["ana", "bo", "chris"])
    return [{"analyst": who, "sql": sql} for sql in questions[: rng.randint(1, 4)]]


SLIPS: list[Callable[[dt.date], str]] = [
    lambda day: f"SELECT * FROM purchases WHERE date = {date(day)}",
    lambda day: f"SELECT max(amount) FROM purchases WHERE date = {date(day)}",
    lambda day: f"SELECT count(*) FROM purchase WHERE date = {date(day)}",
    lambda day: f"SELECT sum(amount) FROM purchases WHERE date = {date(day)}",
    lambda day: f"SELECT count(* FROM purchases WHERE date = {date(day)}",
]


def cdnow(lines: int, rng: random.Random) -> Iterator[Line]:
    """Yield a shop's log: lines are thinned to about `lines`."""
    days = [FIRST + dt.timedelta(i) for i in range((LAST - FIRST).days + 1)]
    share = max((lines - 2.9 * len(days)) / len(days), 0.0) / 2.6
    for day in days:
        asked = daily(day)
        if day.weekday() == 0 and day > FIRST:
            asked += weekly(day)
        asked += [line for _ in range(3) if rng.random() < share / 3
                  for line in drill_down(day, rng)]  # fmt: skip
        if rng.random() < 0.04:
            asked.append({"analyst": "ana", "sql": rng.choice(SLIPS)(day)})
        minute = 8 * 60
        for line in asked:
            minute += rng.randint(1, 25)
            at = dt.datetime(day.year, day.month, day.day) + dt.timedelta(1, 60 * minute)
            yield {"time": at} | line


def events(lines: int, days: int, rng: random.Random) -> Iterator[Line]:
    """Yield one dashboard of data/events.py, day after day and round after round."""
    first = dt.date(2024, 1, 1)
    for i in range(lines):
        day = date(first + dt.timedelta(i // 2 % days))
        where = f"WHERE day = {day}"
        if i % 2 == 0:
            sql = f"SELECT count(DISTINCT user_id) AS users FROM events {where}"
        elif rng.random() < 0.8:
            sql = f"SELECT count(*) AS events FROM events {where}"
        else:
            sql = f"SELECT sum(amount) AS amount FROM events {where}"
        yield {"sql": sql}


def mixed(lines: int, days: int, rng: random.Random, bad: float) -> Iterator[Line]:
    """Yield questions of all kinds about data/events.py, and what is none."""
    first = dt.date(2024, 1, 1)
    for _ in range(lines):
        day = first + dt.timedelta(rng.randrange(days))
        week = f"day >= {date(day)} AND day < {date(day + dt.timedelta(7))}"
        top = ", ".join(f"'activity_{i:02}'" for i in range(1, rng.choice([3, 5, 8])))
        if rng.random() < bad:
            yield {"sql": rng.choice(BAD).format(day=date(day), n=rng.randrange(1000))}
            continue
        (line,) = rng.choices(
            [
                _count("day = :day", {"day": day}),
                _count(f"day = {date(day)} AND amount > {rng.choice([5, 20, 50, 100])}"),
                _count(week, options={"sigma": 60}),
                {"sql": f"SELECT sum(least(amount, 100)) AS amount FROM events WHERE {week}"},
                {
                    "sql": "SELECT activity, sum(least(amount, 100)) AS amount FROM events "
                    f"WHERE activity IN ({top}) AND {week} GROUP BY activity"
                },
            ],
            [45, 22, 8, 10, 15],
        )
        yield line


def _count(where: str, parameters: Line | None = None, options: Line | None = None) -> Line:
    line: Line = {"sql": f"SELECT count(DISTINCT user_id) AS users FROM events WHERE {where}"}
    return line | {k: v for k, v in (("parameters", parameters), ("options", options)) if v}


BAD = [
    "SELECT count(* FROM events WHERE day = {day}",
    "SELECT user_id FROM events LIMIT {n}",
    "SELECT max(amount) FROM events WHERE day = {day}",
    "SELECT count(*) FROM event WHERE day = {day}",
    "SELECT sum(amount * 1e9 / amount) FROM events WHERE day < {day}",
    "DROP TABLE events",
    "SELECT count(*) FROM events WHERE day = :day",
    "",
]


@click.command()
@click.argument("kind", type=click.Choice(["cdnow", "events", "mixed"]))
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--lines", type=click.IntRange(1), help="About how many. [default: 2400, 100000]")
@click.option("--days", type=click.IntRange(1), default=365, show_default=True)
@click.option("--bad", type=click.FloatRange(0, 1), default=0.33, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
def main(kind: str, out: Path, lines: int | None, days: int, bad: float, seed: int) -> None:
    """Write a query log to OUT: JSON Lines or CSV, and .gz or .zst, by its name."""
    rng = random.Random(seed)
    if kind == "cdnow":
        made = cdnow(lines or 2400, rng)
    elif kind == "events":
        made = events(lines or 100_000, days, rng)
    else:
        made = mixed(lines or 100_000, days, rng, bad)
    named = ({"id": f"{kind[0]}{n:05}"} | line for n, line in enumerate(made, 1))
    write = _write_csv if ".csv" in out.suffixes else _write_json_lines
    with _opened(out) as file:
        written = write(codecs.getwriter("utf-8")(file), named)
    click.echo(f"{out}: {written:,} lines, {out.stat().st_size:,} bytes")


@contextmanager
def _opened(out: Path) -> Iterator[Any]:
    """Open a file for bytes that are compressed as its name says."""
    if out.suffix == ".zst":
        import pyarrow as pa

        with pa.CompressedOutputStream(str(out), "zstd") as file:
            yield file
    elif out.suffix == ".gz":
        with open(out, "wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as zipped:
            yield zipped
    else:
        with open(out, "wb") as plain:
            yield plain


def _write_json_lines(file: codecs.StreamWriter, lines: Iterator[Line]) -> int:
    written = 0
    for written, line in enumerate(lines, 1):  # noqa: B007
        file.write(json.dumps(line, default=str) + "\n")
    return written


def _write_csv(file: codecs.StreamWriter, lines: Iterator[Line]) -> int:
    columns = ["id", "time", "analyst", "sql", "parameters", "options"]
    writer = csv.DictWriter(file, columns, lineterminator="\n")
    writer.writeheader()
    written = 0
    for written, line in enumerate(lines, 1):  # noqa: B007
        objects = {k: json.dumps(v, default=str) for k, v in line.items() if isinstance(v, dict)}
        writer.writerow(line | objects)
    return written


if __name__ == "__main__":
    main()
