"""A parameter is read by the column that it stands beside: that of the tables in its statement."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest
from server.made import person

import sparseq
from sparseq.pgwire._duckdb.catalogue import Catalogue
from sparseq.pgwire.client_state import State
from sparseq.pgwire.pg_settings import Settings
from sparseq.pgwire.selects import Selects
from sparseq.pgwire.sql_tokens import tokens
from sparseq.server.service import Service
from sparseq.server.tokens import Tokens


@pytest.mark.parametrize(
    ("statement", "type"),
    [
        ("SELECT count(*) FROM a WHERE x = $1", "VARCHAR"),
        ("SELECT count(*) FROM b WHERE x = $1", "DOUBLE"),
        ("SELECT count(*) FROM a JOIN b USING (who) WHERE x = $1", ""),
        ("SELECT count(*) FROM a JOIN p USING (who) WHERE y = $1", ""),
    ],
)
def test_a_parameter_has_the_type_of_a_column_of_its_tables(statement: str, type: str) -> None:
    tables = {
        "a": pa.table({"who": [1, 2], "x": ["u", "v"]}),
        "b": pa.table({"who": [1, 2], "x": [1.0, 2.0]}),
    }
    public = {"p": pa.table({"y": [1]})}

    async def check() -> None:
        con = sparseq.create(None, tables, user="who", seed=1, public=public)
        service = Service(con, Tokens(None), "shop")
        settings, look = Settings("ada"), Catalogue(service.catalog, "shop", {})
        try:
            who = person(service.tokens, "ada")
            selects = Selects(service, who, State(settings), look.look("ada", settings))
            name = "y" if "y = $1" in statement else "x"
            found = selects.column_of(tokens(statement))(name)
            assert ("" if found is None else found.type) == type
        finally:
            look.close()
            await service.close()

    asyncio.run(check())
