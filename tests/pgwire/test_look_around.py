"""Looking around is free and shows nobody: every message type, every statement that tools send."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pgwire.wired import Wire, cells, error, kinds, notices, run, spent

from sparseq.pgwire import messages as m
from sparseq.pgwire.sql_tokens import tokens
from sparseq.store.store import Store

HERE = Path(__file__).parent
COUNT = "SELECT kind, count(*) AS n FROM purchases WHERE quantity < $1 GROUP BY kind"


def look_around() -> list[str]:
    lines = (HERE / "look_around.sql").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith(("#", "--"))]


def captured() -> list[str]:
    lines = (HERE / "introspection.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["sql"] for line in lines]


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.deep)])
def test_no_statement_that_tools_send_is_charged(step: int) -> None:
    async def test(wire: Wire, store: Store) -> None:
        before = spent(store)
        refused = {}
        for text in look_around()[::step]:
            replies = await wire.ask(text)
            if said := error(replies):
                refused[text] = said["M"]
            await wire.take(m.Parse("", text), m.Describe("S", ""), m.Sync())
        for text in captured()[::step]:
            await wire.take(m.Parse("", text), m.Describe("S", ""), m.Sync())
            if "$" not in text:
                await wire.ask(text)
        assert (spent(store), store.released) == (before, 0)
        assert set(refused) <= {"SELECT purchases FROM purchases LIMIT 1"}, refused

    run(test)


def test_no_message_but_execute_of_a_question_is_charged() -> None:
    async def test(wire: Wire, store: Store) -> None:
        before = spent(store)
        kept = [m.Parse("s", COUNT, (23,)), m.Describe("S", "s"), m.Bind("p", "s", (), (b"3",))]
        others = [m.Describe("P", "p"), m.Flush(), m.Close("P", "p"), m.Close("S", "s"), m.Sync()]
        await wire.take(m.SimpleQuery("BEGIN"), *kept, *others)
        for message in (
            m.Copy("d", b"1\t2\n"),
            m.Copy("c"),
            m.Copy("f", b"no"),
            m.FunctionCall(b"\0" * 8),
            m.Sync(),
            m.SimpleQuery(""),
            m.SimpleQuery("COMMIT"),
            m.Sasl(b"x"),
        ):
            await wire.take(message)
        assert (spent(store), store.released) == (before, 0)
        assert wire.session.over  # a token where none was asked for

    run(test)


def test_rows_of_people_are_not_shown() -> None:
    async def test(wire: Wire, store: Store) -> None:
        replies = await wire.ask("SELECT * FROM purchases LIMIT 10")
        assert (kinds(replies), cells(replies)) == ("TCZ", [])
        assert "rows of purchases are about people" in notices(replies)[0]
        replies = await wire.ask(
            "SELECT count(*) AS n FROM (SELECT kind FROM purchases LIMIT 10) AS sample"
        )
        assert (kinds(replies), cells(replies)) == ("TCZ", [])

    run(test)


def test_values_and_ends_are_those_that_are_declared() -> None:
    async def test(wire: Wire, store: Store) -> None:
        replies = await wire.ask("SELECT DISTINCT kind FROM purchases ORDER BY kind DESC LIMIT 5")
        assert cells(replies) == [[b"own"], [b"gift"]]
        assert "declared" in notices(replies)[0]
        replies = await wire.ask("SELECT kind FROM purchases WHERE kind ILIKE 'G%' GROUP BY kind")
        assert cells(replies) == [[b"gift"]]
        replies = await wire.ask("SELECT min(amount), max(day) FROM public.purchases")
        assert cells(replies) == [[b"0", b"1997-04-01"]]
        assert cells(await wire.ask("SELECT DISTINCT quantity FROM purchases")) == []
        assert cells(await wire.ask("SELECT max(quantity) FROM purchases")) == []
        assert cells(await wire.ask("SELECT DISTINCT paid FROM purchases")) == [[b"f"], [b"t"]]
        within = "seen >= TO_TIMESTAMP('1997-01-05', 'YYYY-MM-DD') AND day < TO_DATE('9', 'MM')"
        replies = await wire.ask(f"SELECT kind, day FROM purchases WHERE {within} LIMIT 9")
        assert (kinds(replies), cells(replies)) == ("TCZ", [])

    run(test)


def test_the_host_is_out_of_reach() -> None:
    async def test(wire: Wire, store: Store) -> None:
        for text in (
            "SELECT * FROM duckdb_settings()",
            "SELECT * FROM duckdb_tables",
            "SELECT getenv('HOME')",
            "SELECT * FROM read_csv('/etc/passwd')",
            "SELECT * FROM '/etc/passwd'",
            "SELECT * FROM glob('*')",
            "SELECT current_setting('data_directory')",
            "SELECT pg_read_file('/etc/passwd')",
            "SELECT * FROM people.purchases",
            "SELECT * FROM pg_catalog_.pg_class",
            "SELECT * FROM query('SELECT 1')",
            "SELECT getvariable('pg_user')",
            "SELECT * FROM sqlite_master",
            "SHOW data_directory",
            "SELECT * FROM pragma_database_list",
            "SELECT * FROM duckdb_secrets()",
            "SELECT * FROM pg_catalog.duckdb_settings",
            "SELECT lo_import('/etc/passwd')",
        ):
            replies = await wire.ask(text)
            found = cells(replies)
            assert error(replies) or found == [[None]], text

    run(test)


def test_a_name_in_a_text_is_no_table() -> None:
    async def test(wire: Wire, store: Store) -> None:
        replies = await wire.ask("SELECT 'FROM purchases' AS purchases -- FROM purchases")
        assert cells(replies) == [[b"FROM purchases"]]
        assert [t.text for t in tokens("/* a /* b */ c */ x")] == ["x"]
        for hidden in (
            "FROM (purchases)",
            "FROM ONLY purchases",
            "FROM shop.public.purchases",
            'FROM "purchases"',
            "FROM pg_class, purchases",
        ):
            replies = await wire.ask(f"SELECT sum(1) AS n {hidden} LIMIT 1")
            assert cells(replies) != [[b"0"]], hidden

    run(test)
