"""The protocol in process: simple and extended, transactions, cursors, COPY, errors, cancelling."""

from __future__ import annotations

import asyncio
import struct
import threading

import pytest
from pgwire.wired import COUNT, Wire, cells, error, fields, kinds, notices, run, spent
from sampled import one_in

from sparseq.pgwire import connections as connection
from sparseq.pgwire import messages as m
from sparseq.pgwire.parameter_types import parameter_types
from sparseq.pgwire.sql_tokens import tokens
from sparseq.question.catalog import Column
from sparseq.store.store import Store


def test_a_question_by_the_simple_protocol() -> None:
    async def test(wire: Wire, store: Store) -> None:
        replies = await wire.ask(COUNT)
        assert kinds(replies) == "TDCZ"
        ((n, half, low, high),) = cells(replies)
        assert float(low or 0) <= float(n or 0) <= float(high or 0)
        assert float(half or 0) > 0
        assert any("true value for everybody" in said for said in notices(replies))
        assert store.released == 1

    run(test)


def test_the_answer_is_that_of_the_store_to_the_last_bit() -> None:
    async def ask(wire: Wire, store: Store) -> list[list[bytes | None]]:
        return cells(await wire.ask(COUNT))

    async def ask_in_process(wire: Wire, store: Store) -> list[float]:
        return list(store.sql(COUNT).rows()[0].values())

    over_the_wire, in_process = run(ask), run(ask_in_process)
    assert [float(v) for v in over_the_wire[0]] == in_process


def _extended(text: str, *values: bytes | None, formats: tuple[int, ...] = ()) -> list[m.Message]:
    return [
        m.Parse("", text),
        m.Bind("", "", (), values, formats),
        m.Describe("P", ""),
        m.Execute(""),
        m.Sync(),
    ]


def test_a_question_by_the_extended_protocol_with_parameters_and_binary_results() -> None:
    async def test(wire: Wire, store: Store) -> None:
        text = "SELECT kind, count(*) AS n FROM purchases WHERE day < $1 GROUP BY kind"
        replies = await wire.take(*_extended(text, b"1997-02-01", formats=(1,)))
        assert kinds(replies) == "12TDDCZ"
        both = cells(replies)
        assert both[0][0] == b"gift"
        assert [len(v or b"") for v in both[0][1:]] == [8, 8, 8, 8]
        told = [row["n"] for row in store.release(1).rows()]
        assert [struct.unpack("!d", cell[1] or b"")[0] for cell in both] == told

    run(test)


def test_what_is_described_before_values_are_known() -> None:
    async def test(wire: Wire, store: Store) -> None:
        text = "SELECT day, count(*) AS n FROM purchases WHERE day >= $1 AND day < $2 GROUP BY day"
        replies = await wire.take(m.Parse("s", text), m.Describe("S", "s"), m.Sync())
        assert kinds(replies) == "1tTZ"
        assert struct.unpack("!hii", replies[1][1]) == (2, 1082, 1082)
        assert store.released == 0

    run(test)


def test_portals_give_so_many_rows_at_a_time() -> None:
    async def test(wire: Wire, store: Store) -> None:
        text = "SELECT kind, count(*) AS n FROM purchases WHERE kind IS NOT NULL GROUP BY kind"
        begun = [m.SimpleQuery("BEGIN"), m.Parse("", text), m.Bind("p", ""), m.Execute("p", 1)]
        replies = await wire.take(*begun, m.Execute("p", 1), m.Execute("p", 1), m.Sync())
        assert kinds(replies) == "CZ12DsDsCZ"
        assert store.released == 1

    run(test)


def test_an_error_is_followed_by_silence_until_sync() -> None:
    async def test(wire: Wire, store: Store) -> None:
        replies = await wire.take(
            m.Parse("", "SELECT nothing FROM purchases"),
            m.Bind("", ""),
            m.Execute(""),
            m.SimpleQuery(COUNT),
            m.Sync(),
        )
        assert kinds(replies) == "12EZ"
        assert error(replies)["C"] == "42703"
        assert store.released == 0

    run(test)


def test_errors_have_states_hints_and_positions() -> None:
    async def test(wire: Wire, store: Store) -> None:
        said = error(await wire.ask("SELECT sum(amuont) FROM purchases"))
        assert (said["C"], said["P"]) == ("42703", "12")
        assert said["H"] == "did you mean 'amount'? Try: SELECT sum(amount) FROM purchases"
        said = error(await wire.ask("SELECT count(*) FROM purchasse"))
        assert said["C"] == "42P01"
        said = error(await wire.ask("SELEKT 1"))
        assert (said["C"], said["P"]) == ("42601", "1")
        assert error(await wire.ask("SELECT 'x"))["C"] == "42601"
        assert store.released == 0

    run(test)


@pytest.mark.parametrize(
    "text",
    one_in(
        2,
        [
            "INSERT INTO purchases VALUES (1)",
            "UPDATE purchases SET amount = 1",
            "DROP TABLE a",
            "DELETE FROM purchases",
            "CREATE TABLE a (b int)",
            "TRUNCATE purchases",
            "VACUUM",
            "COPY purchases FROM STDIN",
            "SELECT * INTO a FROM purchases",
            "GRANT ALL ON a TO b",
            "WITH a AS (DELETE FROM purchases RETURNING 1) SELECT * FROM a",
            "SELECT 1 FROM purchases FOR UPDATE",
            "CREATE TEMP TABLE a (b int)",
        ],
    ),
)
def test_what_would_write_is_refused(text: str) -> None:
    async def test(wire: Wire, store: Store) -> None:
        said = error(await wire.ask(text))
        assert said["C"] == "25006"
        assert "read-only transaction" in said["M"]
        assert store.released == 0

    run(test)


def test_a_transaction_that_failed_is_over_until_rollback() -> None:
    async def test(wire: Wire, store: Store) -> None:
        assert (await wire.ask("BEGIN"))[-1][1] == b"T"
        assert (await wire.ask("SELECT nothing"))[-1][1] == b"E"
        assert error(await wire.ask(COUNT))["C"] == "25P02"
        replies = await wire.take(m.Parse("late", COUNT), m.Sync())
        assert error(replies)["C"] == "25P02"
        replies = await wire.ask("COMMIT")
        assert (replies[0], replies[-1]) == ((b"C", b"ROLLBACK\0"), (b"Z", b"I"))
        assert store.released == 0

    run(test)


def test_rollback_takes_settings_back_and_says_that_it_takes_no_answer_back() -> None:
    async def test(wire: Wire, store: Store) -> None:
        await wire.ask("BEGIN; SET application_name = 'a'")
        await wire.ask(COUNT)
        told = notices(await wire.ask("ROLLBACK"))
        assert any("stays charged" in line for line in told)
        assert cells(await wire.ask("SHOW application_name")) == [[b""]]
        assert store.released == 1

    run(test)


def test_savepoints() -> None:
    async def test(wire: Wire, store: Store) -> None:
        await wire.ask("BEGIN; SAVEPOINT a; SAVEPOINT b")
        assert (await wire.ask("nothing"))[-1][1] == b"E"
        assert (await wire.ask("ROLLBACK TO SAVEPOINT a"))[-1][1] == b"T"
        assert error(await wire.ask("RELEASE b"))["C"] == "3B001"

    run(test)


def test_settings_are_options_of_questions() -> None:
    async def test(wire: Wire, store: Store) -> None:
        await wire.ask("SET sparseq.confidence = 0.5")
        await wire.ask(COUNT)
        assert store.release(1).facts.confidence == 0.5
        await wire.ask("RESET ALL; SET sparseq.price TO '4'")
        await wire.ask(COUNT)
        assert (store.release(2).facts.confidence, store.release(2).facts.price) == (0.95, 4.0)
        said = error(await wire.ask("SET sparseq.precison = '2%'"))
        assert (said["C"], said["H"]) == ("42704", "did you mean 'precision'?")
        assert error(await wire.ask("SET sparseq.sigma = 'much'"))["C"] == "22023"
        assert error(await wire.ask("SET server_version = '1'"))["C"] == "55P02"
        assert error(await wire.ask("SHOW nothing"))["C"] == "42704"

    run(test)


def test_settings_local_to_a_transaction_go_with_it() -> None:
    async def test(wire: Wire, store: Store) -> None:
        await wire.ask("BEGIN; SET LOCAL application_name = 'a'")
        assert cells(await wire.ask("SHOW application_name")) == [[b"a"]]
        await wire.ask("COMMIT")
        assert cells(await wire.ask("SHOW application_name")) == [[b""]]

    run(test)


def test_a_request_id_is_a_repeat_and_free() -> None:
    async def test(wire: Wire, store: Store) -> None:
        await wire.ask("SET sparseq.request_id = 'monday'")
        first = cells(await wire.ask(COUNT))
        before = spent(store)
        await wire.ask("SET sparseq.request_id = 'monday'")
        replies = await wire.ask(COUNT)
        assert cells(replies) == first
        assert any("nothing was charged" in line for line in notices(replies))
        assert spent(store) == before

    run(test)


def test_prepare_and_execute() -> None:
    async def test(wire: Wire, store: Store) -> None:
        text = "PREPARE few (int, text) AS SELECT count(*) AS n FROM purchases WHERE quantity < $1"
        assert kinds(await wire.ask(f"{text} AND kind = $2")) == "CZ"
        assert kinds(await wire.ask("EXECUTE few (3, 'gift')")) == "TDCZ"
        assert "'gift'" in store.release(1).facts.query
        assert error(await wire.ask("EXECUTE few (3)"))["C"] == "22023"
        assert kinds(await wire.ask("DEALLOCATE few")) == "CZ"
        assert error(await wire.ask("EXECUTE few (3, 'gift')"))["C"] == "26000"

    run(test)


def test_cursors_ask_when_their_first_row_is_fetched() -> None:
    async def test(wire: Wire, store: Store) -> None:
        text = "SELECT kind, count(*) AS n FROM purchases GROUP BY kind"
        declare = f"DECLARE c CURSOR FOR {text}"
        assert error(await wire.ask(declare))["C"] == "25P01"
        assert kinds(await wire.ask(f"BEGIN; {declare}")) == "CCZ"
        assert store.released == 0
        assert kinds(await wire.ask("FETCH FORWARD 1 FROM c")) == "TDCZ"
        assert kinds(await wire.ask("FETCH ALL c")) == "TDCZ"
        assert kinds(await wire.ask("FETCH NEXT FROM c; CLOSE c; COMMIT")) == "TCCCZ"
        assert store.released == 1

    run(test)


def test_copy_to_stdout() -> None:
    async def test(wire: Wire, store: Store) -> None:
        values = "(VALUES (1, 'a,b'), (NULL, E'c\\td')) AS t(x, y)"
        replies = await wire.ask(f"COPY (SELECT * FROM {values}) TO STDOUT")
        assert kinds(replies) == "HddcCZ"
        assert b"".join(d for k, d in replies if k == b"d") == b"1\ta,b\n\\N\tc\\td\n"
        replies = await wire.ask(f"COPY (SELECT * FROM {values}) TO STDOUT WITH CSV HEADER")
        assert b"".join(d for k, d in replies if k == b"d") == b'x,y\n1,"a,b"\n,c\td\n'
        replies = await wire.ask(f"COPY (SELECT * FROM {values}) TO STDOUT (FORMAT binary)")
        assert b"".join(d for k, d in replies if k == b"d").startswith(b"PGCOPY\n\xff\r\n\0")
        replies = await wire.ask(f"COPY ({COUNT}) TO STDOUT (FORMAT csv)")
        assert kinds(replies) == "HdcCZ"
        assert error(await wire.ask("COPY purchases TO '/tmp/x'"))["C"] == "42501"
        assert store.released == 1

    run(test)


def test_several_statements_stop_at_the_first_error() -> None:
    async def test(wire: Wire, store: Store) -> None:
        assert kinds(await wire.ask(f"SELECT 1; SELECT nothing; {COUNT}")) == "TDCEZ"
        assert kinds(await wire.ask(" ; ; ")) == "IZ"
        assert store.released == 0

    run(test)


def test_discard_all() -> None:
    async def test(wire: Wire, store: Store) -> None:
        await wire.ask("PREPARE a AS SELECT 1; SET application_name = 'x'")
        assert kinds(await wire.ask("DISCARD ALL")) == "CZ"
        assert cells(await wire.ask("SHOW application_name")) == [[b""]]
        assert error(await wire.ask("EXECUTE a"))["C"] == "26000"
        assert error(await wire.ask("BEGIN; DISCARD ALL"))["C"] == "25001"

    run(test)


def test_cancelled_before_its_turn_nothing_is_asked() -> None:
    async def test(wire: Wire, store: Store) -> None:
        busy = threading.Event()
        who = wire.service.named("ada")
        held = asyncio.ensure_future(wire.service.call(who, lambda _: busy.wait(30)))
        asked = asyncio.ensure_future(wire.take(m.SimpleQuery(COUNT)))
        while wire.service.waiting != 1 or not held:
            await asyncio.sleep(0)
        wire.session.cancel()
        said = error(await asked)
        busy.set()
        await held
        assert store.released == 0
        assert said["C"] == "57014"

    run(test)


def test_statement_timeout_ends_waiting() -> None:
    async def test(wire: Wire, store: Store) -> None:
        await wire.ask("SET statement_timeout = '1ms'")
        many = "SELECT count(*) FROM pg_attribute a, pg_attribute b, pg_attribute c"
        said = error(await wire.ask(many))
        assert (said["C"], said["M"]) == ("57014", "canceling statement due to statement timeout")
        await wire.ask("SET statement_timeout = 0")
        assert kinds(await wire.ask("SELECT 1")) == "TDCZ"

    run(test)


def test_a_revoked_token_ends_the_session() -> None:
    async def test(wire: Wire, store: Store) -> None:
        assert kinds(await wire.ask("SELECT 1")) == "TDCZ"
        wire.service.tokens.revoke("ada")
        replies = await wire.ask("SELECT 1")
        assert kinds(replies) == "E"
        assert (error(replies)["S"], error(replies)["C"]) == ("FATAL", "28000")
        assert wire.session.over

    run(test)


def test_intervals_are_ordinary_columns() -> None:
    async def test(wire: Wire, store: Store) -> None:
        text = f"SELECT n_high - n_low AS width, 2 * n AS twice FROM ({COUNT}) AS q WHERE n_low > 0"
        replies = await wire.take(*_extended(text))
        (row,) = store.release(1).rows()
        assert kinds(replies) == "12TDCZ"
        assert [float(v or 0) for v in cells(replies)[0]] == [
            row["n_high"] - row["n_low"],
            2 * row["n"],
        ]
        named = f"d AS (SELECT * FROM purchases), q AS ({COUNT.replace('purchases', 'd')})"
        text = f"WITH {named}, w AS (SELECT n_high - n_low AS width FROM q) SELECT width FROM w"
        width = cells(await wire.ask(text))
        (row,) = store.release(2).rows()
        assert [float(v or 0) for v in width[0]] == [row["n_high"] - row["n_low"]]
        for other in (
            f"SELECT n_low FROM ({COUNT}) AS q, pg_class",
            f"WITH q AS ({COUNT}) SELECT n_low FROM q WHERE n > (SELECT count(*) FROM purchases)",
            "WITH q AS (SELECT n_low, count(*) AS n FROM q, purchases) SELECT n_low FROM q",
        ):
            assert error(await wire.ask(other))["C"] in ("42P01", "0A000", "42703")
        assert store.released == 2

    run(test)


def test_recorded_answers_are_tables() -> None:
    async def test(wire: Wire, store: Store) -> None:
        await wire.ask("SELECT kind, count(*) AS n FROM purchases GROUP BY kind")
        before = spent(store)
        text = "SELECT a.kind, a.n - b.n FROM released.r1 AS a JOIN released.r1 AS b USING (kind)"
        assert [row[1] for row in cells(await wire.ask(text))] == [b"0", b"0"]
        ((number, query),) = cells(await wire.ask("SELECT release, query FROM released.releases"))
        assert (number, (query or b"")[:11]) == (b"1", b"SELECT kind")
        assert cells(await wire.ask("SELECT releases FROM budget.guarantee")) == [[b"1"]]
        assert error(await wire.ask("SELECT * FROM released.r2"))["C"] == "42P01"
        assert spent(store) == before

    run(test)


def test_what_was_asked_before_is_read_back_unless_it_is_asked_anew() -> None:
    async def test(wire: Wire, store: Store) -> None:
        first = cells(await wire.ask(COUNT))
        before = spent(store)
        replies = await wire.ask(COUNT)
        assert (cells(replies), spent(store), store.released) == (first, before, 1)
        assert any("nothing was charged" in line for line in notices(replies))
        await wire.ask("SET sparseq.fresh = on")
        assert cells(await wire.ask(COUNT)) != first
        assert (spent(store) != before, store.released) == (True, 2)
        assert error(await wire.ask("SET sparseq.fresh = maybe"))["C"] == "22023"

    run(test)


def test_a_statement_too_long_is_refused_before_it_is_read() -> None:
    async def test(wire: Wire, store: Store) -> None:
        long = f"SELECT count(*) FROM purchases WHERE amount IN ({', '.join(['1'] * 20_000)})"
        assert error(await wire.ask(f"{long} -- {'x' * 60_000}"))["C"] == "54000"
        assert error(await wire.ask("SELECT 1;" * 30_000))["C"] == "54000"
        assert kinds(await wire.ask("SELECT '" + "x" * 50_000 + "'")) == "TDCZ"
        assert store.released == 0

    run(test)


def test_set_config_sets() -> None:
    async def test(wire: Wire, store: Store) -> None:
        text = "SELECT pg_catalog.set_config('application_name', 'x', false)"
        await wire.take(m.Parse("", text), m.Describe("S", ""), m.Sync())
        assert cells(await wire.ask("SHOW application_name")) == [[b""]]
        assert cells(await wire.ask(text)) == [[b"x"]]
        assert cells(await wire.ask("SHOW application_name")) == [[b"x"]]
        assert cells(await wire.ask("SELECT current_setting('application_name')")) == [[b"x"]]
        assert error(await wire.ask("SELECT set_config('nothing', 'x', false)"))["C"] == "42704"

    run(test)


@pytest.mark.parametrize(
    "text",
    one_in(
        3,
        [
            "FETCH " + "1" * 5000 + " FROM c",
            "PREPARE a AS SELECT $" + "9" * 5000,
            "PREPARE a AS SELECT $0",
            "SELECT * FROM released.r" + "1" * 5000,
            "SET sparseq.price = '" + "1" * 5000 + "'; " + COUNT,
            "SET sparseq.price = 'nan'; " + COUNT,
            "SET statement_timeout = '" + "9" * 5000 + "'",
            "SELECT -" + "1" * 5000 + "; " + COUNT + " WHERE quantity > " + "1" * 5000,
            "SELECT " + "(" * 20_000 + "1" + ")" * 20_000,
        ],
    ),
    ids=lambda text: text[:24],
)
def test_numbers_that_are_too_long_are_no_failure_of_the_server(text: str) -> None:
    async def test(wire: Wire, store: Store) -> None:
        replies = await wire.ask(text)
        assert "XX000" not in [fields(body)["C"] for kind, body in replies if kind == b"E"]
        assert store.released <= 1

    run(test)


def test_long_messages_that_wait_are_few() -> None:
    async def main() -> None:
        waiting = connection._Waiting(connection.WAITING)
        for k in range(5):
            await waiting.put(m.Parse("", "x" * (1 << 20)))
            assert waiting.full() is (k == 4)
        late = asyncio.ensure_future(waiting.put(m.Bind("", "", values=(b"x" * (1 << 20),))))
        await asyncio.sleep(0)
        assert not late.done()
        await waiting.get()
        await late
        while not waiting.empty():
            await waiting.get()
        assert waiting.held == 0

    asyncio.run(main())


def test_parameters_stand_beside_what_clients_write() -> None:
    """Lists, expressions, and a column that is called as a type is."""

    async def test(wire: Wire, store: Store) -> None:
        for where, value, type in (
            ("kind = ANY($1)", b"{gift,own}", 1009),
            ("quantity = ANY($1)", b"{1,2}", 1016),
            ("amount + 1 < $1", b"5", 25),
            ("date_trunc('month', seen) = $1", b"1997-01-01", 25),
            ("day >= DATE '1997-01-01' AND day < $1", b"1997-02-01", 1082),
        ):
            text = f"SELECT count(*) AS n FROM public.purchases WHERE {where}"
            begun = m.Parse("", text), m.Describe("S", ""), m.Bind("", "", (), (value,))
            replies = await wire.take(*begun, m.Execute(""), m.Sync())
            assert kinds(replies) == "1tT2DCZ", (where, error(replies))
            assert struct.unpack("!hi", replies[1][1]) == (1, type)
        assert store.released == 5

    run(test)
    types = parameter_types(tokens("SELECT 1 FROM t WHERE date < $1 AND date > $2"), (), a_date)
    assert types == (1082, 1082)


def a_date(name: str) -> Column | None:
    return Column("date", "DATE") if name == "date" else None


@pytest.mark.parametrize(
    ("before", "columns"),
    [
        ((m.SimpleQuery("SET application_name = 'Superset 4'"),), ["n"]),
        ((m.SimpleQuery("SET TIMEZONE = UTC"),), ["n"]),
        ((m.Parse("", COUNT), m.Describe("S", "")), ["n"]),
        ((m.SimpleQuery("SET sparseq.columns = error"),), ["n", "n_error"]),
        ((m.SimpleQuery("SET application_name = 'psql'"),), ["n", "n_error", "n_low", "n_high"]),
    ],
)
def test_clients_that_lay_out_columns_have_their_own(
    before: tuple[m.Message, ...], columns: list[str]
) -> None:
    """The interval is then in a notice; and the recorded answer has it all the same."""

    async def test(wire: Wire, store: Store) -> None:
        await wire.take(*before, m.Sync())
        replies = await wire.ask(COUNT)
        assert names(replies) == columns
        (told,) = [said for said in notices(replies) if "true value" in said]
        ((low, high),) = [(row["n_low"], row["n_high"]) for row in store.release(1).rows()]
        assert low < high
        assert ("–" in told) == (columns[-1] != "n_high")
        assert names(await wire.ask("SELECT * FROM released.r1"))[-1] == "n_high"
        await wire.ask("SET sparseq.columns = interval")
        assert names(await wire.ask(COUNT))[-1] == "n_high"
        assert store.released == 1
        ((name,),) = cells(await wire.ask("SELECT current_database()"))
        assert name == wire.service.name.encode()

    run(test)


def names(replies: list[tuple[bytes, bytes]]) -> list[str]:
    """Return the names of columns that were described."""
    (body,) = [body for kind, body in replies if kind == b"T"]
    found, body = [], body[2:]
    while body:
        name, _, rest = body.partition(b"\0")
        found.append(name.decode())
        body = rest[18:]
    return found
