"""What tools send to look around is answered as PostgreSQL answers it with our tables, empty."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pgwire.oracle import postgresql

from sparseq.pgwire._duckdb.catalogue import Catalogue, CatalogueLook
from sparseq.pgwire.parameter_types import cast_type
from sparseq.pgwire.pg_settings import Settings
from sparseq.pgwire.pg_values import wire_type
from sparseq.pgwire.run_statement import bound
from sparseq.pgwire.sql_tokens import split
from sparseq.pgwire.statement_kinds import SqlStatement
from sparseq.pgwire.wire_errors import WireError
from sparseq.question.catalog import Catalog, Column, Table

SENT = Path(__file__).with_name("introspection.jsonl")
SHOP = Catalog(
    (
        Table(
            "purchases",
            (
                Column("customer_id", "INTEGER"),
                Column("date", "DATE"),
                Column("quantity", "INTEGER"),
                Column("amount", "DOUBLE", bounds=(0.0, 500.0)),
            ),
            user="customer_id",
        ),
    )
)
OWN_OID = re.compile(r"\b16[345]\d\d\b")
DIFFERS = re.compile(r"\d+ kB|\d+ bytes|PostgreSQL 15\S* \(.*\).*|\b7\d\d\b")
Rows = tuple[list[str], list[str]]


def statements() -> list[str]:
    """Return what was captured, with a value for every parameter."""
    lines = SENT.read_text(encoding="utf-8").splitlines()
    found = [one for line in lines for one in split(json.loads(line)["sql"])]
    return [_with_values(SqlStatement.of(one)) for one in found]


def _with_values(statement: SqlStatement) -> str:
    types = [cast_type(statement.tokens, n + 1) for n in range(statement.parameters)]
    return bound(statement, [_VALUES.get(type) for type in types]).text


_VALUES = {23: 1, 1043: "x", 2205: "pg_class"}
"""By type; a parameter that is cast to none of them is NULL."""


@pytest.fixture(scope="module")
def look() -> Iterator[CatalogueLook]:
    catalogue = Catalogue(SHOP, "shop", {})
    found = catalogue.look("curator", Settings("curator"))
    yield found
    found.close()
    catalogue.close()


def selects() -> list[str]:
    return [one for one in statements() if one.split()[0].upper() not in ("SHOW", "SET")]


def test_nearly_all_that_was_captured_is_answered(look: CatalogueLook) -> None:
    refused = []
    for sql in selects():
        try:
            look.table(sql)
        except WireError as error:
            refused.append(f"{error.message}: {sql[:60]}")
    assert len(refused) <= 0.05 * len(selects()), refused


def _normal(names: list[str], rows: list[tuple[str | None, ...]]) -> Rows:
    texts = [OWN_OID.sub("oid", str(row)) for row in rows if "'chunk_" not in str(row)]
    return names, sorted({DIFFERS.sub("…", text) for text in texts})


def _ours(look: CatalogueLook, sql: str) -> Rows | str:
    try:
        table = look.table(sql)
    except WireError as error:
        return error.code[:2]
    columns = [
        [None if v is None else wire_type(f.type).text(v).decode() for v in column.to_pylist()]
        for f, column in zip(table.schema, table.columns, strict=True)
    ]
    return _normal(table.column_names, list(zip(*columns, strict=True)))


def _theirs(con: Any, sql: str) -> Rows | str:
    psycopg = pytest.importorskip("psycopg")
    try:
        found = con.execute(sql)
    except psycopg.Error as error:
        return str(error.sqlstate)[:2]
    return _normal([column.name for column in found.description], found.fetchall())


@pytest.mark.deep
def test_it_is_answered_as_postgresql_does(look: CatalogueLook, tmp_path: Path) -> None:
    """The quick test counts what is answered; here the answers are a real server's.

    Numbers of own objects and transactions, sizes, versions and TOAST tables are passed over.
    """
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")

    class Text(psycopg.adapt.Loader):  # type: ignore[misc, name-defined]
        def load(self, data: Any) -> str:
            return bytes(data).decode()

    differ = []
    with postgresql(SHOP, tmp_path) as port:
        where = f"host=127.0.0.1 port={port} user=curator dbname=shop"
        with psycopg.connect(where, autocommit=True) as con:
            for type in list(con.adapters.types):
                for oid in (type.oid, type.array_oid):
                    if oid:
                        con.adapters.register_loader(oid, Text)
            for sql in selects():
                if (ours := _ours(look, sql)) != (theirs := _theirs(con, sql)):
                    differ.append((sql, ours, theirs))
    print(f"{len(selects()) - len(differ)} of {len(selects())} agree")
    for sql, ours, theirs in differ:
        print("---", " ".join(sql[:150].split()), _difference(ours, theirs), sep="\n")
    assert len(differ) <= 0.05 * len(selects())


def _difference(ours: Rows | str, theirs: Rows | str) -> str:
    if isinstance(ours, str) or isinstance(theirs, str):
        return f"{str(ours)[:80]} | {str(theirs)[:80]}"
    names = [pair for pair in zip(ours[0], theirs[0], strict=False) if pair[0] != pair[1]]
    more = [row for row in ours[1] if row not in theirs[1]][:2]
    fewer = [row for row in theirs[1] if row not in ours[1]][:2]
    return f"names {names} ours {more} theirs {fewer}"
