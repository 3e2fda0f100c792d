"""Whatever a question names, each value stands under its own column, in every form of an answer."""

from __future__ import annotations

import asyncio
import csv
import datetime as dt
import io
import json
import random
import zipfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from pgwire.wired import Wire, cells
from server.made import person

import sparseq
import sparseq.dbapi
from sparseq.answers.answer import Answer
from sparseq.cli.show import encode
from sparseq.pgwire._duckdb.catalogue import Catalogue
from sparseq.pgwire.client_state import State
from sparseq.pgwire.pg_session import Session
from sparseq.pgwire.pg_settings import Settings
from sparseq.released.result_columns import (
    ColumnRole,
    ResultColumn,
    column_parts,
    columns_of,
    keys_of,
    noised_of,
    other_names,
    result_names,
    result_table,
    shown_columns,
    unique_names,
)
from sparseq.replay.answer_file import cells_of, rows_of_cells
from sparseq.series import QuerySeries, QueryText, Ticks
from sparseq.server.mcp import handle
from sparseq.server.service import Service
from sparseq.server.tokens import Role as TokenRole
from sparseq.server.tokens import Tokens

NAMES = ("n", "n_low", "n_high", "n_low_high", "n_error", "n_low_2", "", 'a"b', "N", "N_Low")
PEOPLE = 400
NOISED = (ColumnRole.VALUE, ColumnRole.ERROR, ColumnRole.LOW, ColumnRole.HIGH)


def drawn(rng: random.Random) -> list[tuple[str, bool]]:
    """Return names of columns, and which are keys."""
    keys = [(rng.choice(NAMES), True) for _ in range(rng.randrange(3))]
    measures = [(rng.choice(NAMES), False) for _ in range(rng.randrange(1, 4))]
    return rng.sample([*keys, *measures], len(keys) + len(measures))


@pytest.mark.parametrize("number", range(60))
def test_names_are_apart_and_say_whose_they_are(number: int) -> None:
    named = drawn(random.Random(number))
    columns = [
        ResultColumn(name, {role: pa.array([100.0 * i + j]) for j, role in enumerate(roles)})
        for i, (name, is_key) in enumerate(named)
        for roles in [(ColumnRole.KEY,) if is_key else NOISED]
    ]
    table = result_table(columns)
    own = unique_names([name for name, _ in named])
    assert len({name.lower() for name in table.column_names}) == table.num_columns
    assert columns_of(table) == own
    assert keys_of(table) == [o for o, (_, is_key) in zip(own, named, strict=True) if is_key]
    assert noised_of(table) == [o for o, (_, is_key) in zip(own, named, strict=True) if not is_key]
    for name, (asked, _) in zip(own, named, strict=True):  # a name that is free is kept
        alike = [other for other, _ in named if other.lower() == asked.lower()]
        assert (name == asked) or len(alike) > 1
    for i, parts in enumerate(column_parts(table).values()):
        for j, role in enumerate(parts):
            assert table[parts[role]].to_pylist() == [100.0 * i + j]
    parts = result_names(columns)
    assert parts == list(column_parts(table).values())
    shown = shown_columns(table, "error")
    assert columns_of(shown) == own
    assert not {p[ColumnRole.LOW] for p in parts if ColumnRole.LOW in p} & set(shown.column_names)
    usual = {role.value for role in NOISED}
    for name, others in other_names(table).items():
        assert name in own
        assert set(others) <= usual


def test_a_free_name_is_the_usual_one() -> None:
    table = result_table([ResultColumn("n", dict.fromkeys(NOISED, pa.array([1.0])))])
    assert table.column_names == ["n", "n_error", "n_low", "n_high"]
    assert other_names(table) == {}
    assert table.schema.field("n_low").metadata == {b"sparseq.role": b"low", b"sparseq.of": b"n"}


def test_answers_of_earlier_versions_are_told_by_names() -> None:
    old = pa.table({"k": ["a"], "n": [1.0], "n_error": [0.5], "n_low": [0.5], "n_high": [1.5]})
    assert (keys_of(old), noised_of(old)) == (["k"], ["n"])
    assert column_parts(old)["n"][ColumnRole.LOW] == "n_low"


# A store whose answers can be told apart: measure i is 10 (i + 1) of each of its people.


def made() -> sparseq.Store:
    values = {f"v{i}": np.full(PEOPLE, 10.0 * (i + 1)) for i in range(3)}
    keys = {f"g{i}": [f"key {i}"] * PEOPLE for i in range(2)}
    rows = pa.table({"who": range(PEOPLE), **keys, **values})
    bounds: dict[str, Any] = {f"v{i}": (0, 10 * (i + 1)) for i in range(3)}
    return sparseq.create(
        None,
        {"t": rows},
        user="who",
        bounds=bounds,
        kappa=1024.0,
        seed=3,
        keys={"g0": ["key 0"], "g1": ["key 1"]},
        types={"g0": "NOT NULL", "g1": "NOT NULL"},
    )


@pytest.fixture(scope="module")
def store() -> Iterator[sparseq.Store]:
    with made() as con:
        yield con


@dataclass
class Asked:
    """A question, and what each of its columns is."""

    sql: str
    named: list[tuple[str, str | float]]

    def check(self, door: str, columns: Sequence[str], row: Sequence[Any]) -> None:
        """Check the one row of the answer: every value under its own column."""
        assert len(columns) == len(row) == len(set(columns)), (door, self.sql, columns)
        found = dict(zip(columns, row, strict=True))
        own = unique_names([name for name, _ in self.named])
        for name, (_, truth) in zip(own, self.named, strict=True):
            if isinstance(truth, str):
                assert found[name] == truth, (door, self.sql, found)
            else:
                assert float(found[name]) == pytest.approx(truth, rel=0.1), (door, self.sql, found)

    def check_intervals(self, answer: Answer) -> None:
        table, own = answer.arrow(), unique_names([name for name, _ in self.named])
        for name, (_, truth) in zip(own, self.named, strict=True):
            parts = column_parts(table)[name]
            if isinstance(truth, float):
                low, high = (
                    table[parts[role]][0].as_py() for role in (ColumnRole.LOW, ColumnRole.HIGH)
                )
                assert low <= table[name][0].as_py() <= high
                assert abs(low - truth) + abs(high - truth) < 0.3 * truth


def question(rng: random.Random) -> Asked:
    named = drawn(rng)
    places, shown, truths, keys = {True: 0, False: 0}, [], list[tuple[str, str | float]](), []
    for name, is_key in named:
        i = places[is_key]
        places[is_key] += 1
        column = f"g{i}" if is_key else f"sum(v{i})"
        keys += [column] * is_key
        quoted = name.replace('"', '""')
        shown.append(f'{column} AS "{quoted}"')
        name = name or (column if is_key else f"sum_v{i}")  # no engine takes "" for a name
        truths.append((name, f"key {i}" if is_key else 10.0 * (i + 1) * PEOPLE))
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    return Asked(f"SELECT {', '.join(shown)} FROM t{group}", truths)


QUESTIONS = [question(random.Random(number)) for number in range(16)]
KNOWN = [
    Asked(
        "SELECT sum(v0) AS n, sum(v1) AS n_low FROM t",
        [("n", 10.0 * PEOPLE), ("n_low", 20.0 * PEOPLE)],
    ),
    Asked(
        "SELECT g0 AS temp_low, sum(v1) AS temp FROM t GROUP BY g0",
        [("temp_low", "key 0"), ("temp", 20.0 * PEOPLE)],
    ),
    Asked(
        "SELECT g0, g0, sum(v0) FROM t GROUP BY g0",
        [("g0", "key 0"), ("g0", "key 0"), ("sum_v0", 10.0 * PEOPLE)],
    ),
    Asked("SELECT sum(v0), sum(v0) FROM t", [("sum_v0", 10.0 * PEOPLE)] * 2),
]


@pytest.mark.parametrize("asked", [*KNOWN, *QUESTIONS], ids=lambda asked: asked.sql[7:60])
def test_in_python_and_in_files(store: sparseq.Store, asked: Asked, tmp_path: Path) -> None:
    answer = store.sql(asked.sql)
    asked.check_intervals(answer)
    table = answer.arrow()
    asked.check("arrow", table.column_names, [c[0].as_py() for c in table.columns])
    (row,) = answer.rows()
    assert list(row) == table.column_names
    asked.check("rows", list(row), list(row.values()))
    frame, panda = answer.pl(), answer.df()
    asked.check("polars", frame.columns, frame.row(0))
    asked.check("pandas", list(panda.columns), panda.iloc[0].tolist())
    cursor = sparseq.dbapi.connect(store).cursor()
    cursor.execute(asked.sql)
    asked.check("dbapi", [column[0] for column in cursor.description], cursor.fetchone())
    back = Answer.from_bytes(answer.to_bytes())
    assert back.arrow().schema.equals(table.schema, check_metadata=True)
    asked.check_intervals(back)
    if not answer.facts.repeated:
        assert store.release(answer.facts.release).arrow().equals(table)
    answer.to_parquet(tmp_path / "a.parquet")
    read = pa.parquet.read_table(tmp_path / "a.parquet")
    assert column_parts(read) == column_parts(table)


@pytest.mark.parametrize("asked", [*KNOWN, *QUESTIONS[:8]], ids=lambda asked: asked.sql[7:60])
def test_in_the_formats_of_the_command_line(store: sparseq.Store, asked: Asked) -> None:
    answer, own = store.sql(asked.sql), unique_names([name for name, _ in asked.named])
    head, row = csv.reader(io.StringIO(str(encode(answer, "csv"))))
    asked.check("csv", head, row)
    said = json.loads(str(encode(answer, "json")))
    asked.check("json", list(said["rows"][0]), list(said["rows"][0].values()))
    assert said["columns"] == head
    assert said.get("names", {}) == other_names(answer.arrow())
    texts = answer.texts()
    assert texts.columns == own
    plain = [text.split(" (")[0].split(" ±")[0].replace(",", "") for text in texts.rows[0]]
    asked.check("table", texts.columns, plain)
    lines = str(encode(answer, "markdown")).splitlines()
    assert len(lines[2].split(" | ")) == len(own)
    workbook = zipfile.ZipFile(io.BytesIO(bytes(encode(answer, "xlsx"))))
    strings = workbook.read("xl/sharedStrings.xml").decode()
    assert all(f">{name}</t>" in strings for name in head if name.isidentifier())
    cells = [{"key": None, "value": None, "error": None} | c for c in cells_of(answer.arrow())]
    (found,) = rows_of_cells(cells)
    asked.check("replay", list(found), list(found.values()))


NUMBERS = count()
Call = Callable[[Service, str], Awaitable[tuple[list[str], list[Any]]]]


async def over_http(service: Service, sql: str) -> tuple[list[str], list[Any]]:
    httpx, app = pytest.importorskip("httpx"), pytest.importorskip("sparseq.server.http.app")
    token = service.tokens.create(f"h{next(NUMBERS)}", TokenRole.ANALYST)
    transport = httpx.ASGITransport(app.application(service))
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        headers = {"Authorization": f"Bearer {token}"}
        found = await client.post("/v1/query", json={"sql": sql}, headers=headers)
    (row,) = found.json()["rows"]
    return list(row), list(row.values())


async def over_mcp(service: Service, sql: str) -> tuple[list[str], list[Any]]:
    who = person(service.tokens, f"m{next(NUMBERS)}")
    params = {"name": "ask", "arguments": {"sql": sql}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    said = json.loads(str(await handle(service, who, json.dumps(message))))
    (row,) = said["result"]["structuredContent"]["rows"]
    return list(row), list(row.values())


async def over_postgresql(service: Service, sql: str) -> tuple[list[str], list[Any]]:
    name = f"p{next(NUMBERS)}"
    service.tokens.create(name, TokenRole.ANALYST)
    state, look = State(Settings(name)), Catalogue(service.catalog, "shop", {})
    sent = bytearray()

    async def send(data: bytes) -> None:
        sent.extend(data)

    session = Session(service, service.named(name), state, look.look(name, state.settings), send)
    wire = Wire(service, session, sent)
    replies = await wire.ask(sql)
    look.close()
    described = next((body for kind, body in replies if kind == b"T"), b"")
    assert described, replies
    (row,) = cells(replies)
    return _described(described), [None if c is None else c.decode() for c in row]


def _described(body: bytes) -> list[str]:
    """Return the names of columns in a RowDescription."""
    names, at = list[str](), 2
    for _ in range(int.from_bytes(body[:2], "big")):
        end = body.index(b"\0", at)
        names.append(body[at:end].decode())
        at = end + 19
    return names


@pytest.mark.parametrize("door", [over_http, over_mcp, over_postgresql])
def test_through_a_server(door: Call) -> None:
    async def check() -> None:
        service = Service(made(), Tokens(None), "shop")
        try:
            for asked in [*KNOWN, *(q for q in QUESTIONS[:9] if '""' not in q.sql)]:
                asked.check(door.__name__, *await door(service, asked.sql))
        finally:
            await service.close()

    asyncio.run(check())


def test_a_series_has_each_number_under_its_keys(tmp_path: Path) -> None:
    days = [dt.date(2024, 1, 1)] * PEOPLE
    rows = {"who": range(PEOPLE), "day": days, "x_low": [7] * PEOPLE, "x": [3.0] * PEOPLE}
    con = sparseq.create(
        None,
        {"t": pa.table(rows)},
        user="who",
        kappa=1024.0,
        seed=1,
        bounds={"x": (0, 10)},
        keys={"x_low": [7]},
        types={"x_low": "NOT NULL"},
    )
    text = "SELECT x_low, sum(x) AS x FROM t WHERE day >= :day AND day < :next_day GROUP BY x_low"
    ticks = Ticks(dt.datetime(2024, 1, 1), last=dt.datetime(2024, 1, 1))
    series = QuerySeries(con, "s", QueryText.of(text), ticks)
    (row,) = series.rows(series.ticks[0])
    assert row.keys == {"x_low": 7}
    assert row.value == pytest.approx(3 * PEOPLE, rel=0.05)


def test_what_is_ordered_by_is_one_column(store: sparseq.Store) -> None:
    with pytest.raises(sparseq.QueryRefused, match="two columns are called 'n'"):
        store.sql("SELECT sum(v0) AS n, sum(v1) AS n FROM t ORDER BY n")
