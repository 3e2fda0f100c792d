"""Bounded work: who makes too many rows in a join is out of it, by their own rows alone."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from sampled import one_in

import sparseq
from sparseq.base.errors import ParameterError, QueryRefused
from sparseq.engine._duckdb.reader import Reader
from sparseq.load._duckdb.storage import Storage
from sparseq.question.limits import MOST_WORK
from sparseq.question.plan import Options, calibrate
from sparseq.sql.from_clause import FromItem
from sparseq.sql.join_sizes import MAX_FACTOR, Equality, factor, key_sql, most_of
from sparseq.stream.charge_amounts import price

ROOT = Path(__file__).parent.parent.parent
PUBLIC = {
    "kinds": pa.table({"kind": ["a", "b", "c"], "rent": [1, 2, 3]}),
    "prices": pa.table({"kind": ["a", "a", "a", "b", None], "tax": [1, 1, 2, 3, 4]}),
}
A = pa.schema([("who", pa.int64()), ("kind", pa.string()), ("n", pa.int64())])
B = pa.schema([("who", pa.int64()), ("n", pa.int64())])
FINE = Options(sigma=1000.0)
MOST = 12


def out_of(combinations: int, tables: int) -> int:
    """Return more than MOST where so many are too many in a join of so many tables of people."""
    return MOST + 1 if combinations > most_of(MOST, tables) else 0


# what is asked, and how many combinations a person's rows make: x of them in A, y of them in B
JOINS = {
    "SELECT count(*) AS v FROM a": lambda x, y: 0,
    "SELECT count(*) AS v FROM a JOIN kinds k ON a.kind = k.kind": lambda x, y: 0,
    "SELECT count(*) AS v FROM a JOIN prices p ON a.kind = p.kind": lambda x, y: 3 * x,
    "SELECT count(*) AS v FROM a JOIN prices p ON a.kind = p.kind AND p.tax = a.n": (
        lambda x, y: 2 * x
    ),
    "SELECT count(*) AS v FROM a LEFT JOIN prices p ON a.kind = p.kind": lambda x, y: 3 * x,
    "SELECT count(*) AS v FROM a, kinds k": lambda x, y: 3 * x,
    "SELECT count(*) AS v FROM a, kinds k WHERE k.kind = a.kind AND a.n > 0": lambda x, y: 0,
    "SELECT count(*) AS v FROM a JOIN b ON a.who = b.who": lambda x, y: x * y,
    "SELECT count(*) AS v FROM a JOIN b ON a.who = b.who WHERE a.n = 1": lambda x, y: x * y,
    "SELECT count(*) AS v FROM a LEFT JOIN b ON a.who = b.who": lambda x, y: x * max(y, 1),
    "SELECT count(*) AS v FROM a FULL JOIN b ON a.who = b.who AND a.n = b.n": (
        lambda x, y: 2 * max(x, 1) * max(y, 1)
    ),
    "SELECT count(*) AS v FROM a JOIN a AS c ON a.who = c.who": lambda x, y: x * x,
    "SELECT count(*) AS v FROM a JOIN a AS c ON a.who = c.who JOIN b ON b.who = c.who": (
        lambda x, y: out_of(x * x * y, 3)
    ),
    "SELECT count(*) AS v FROM a JOIN b ON a.who = b.who, kinds k": lambda x, y: 3 * x * y,
    "SELECT count(*) AS v FROM a JOIN (SELECT who, max(n) AS m FROM b GROUP BY who) AS l "
    "ON a.who = l.who": lambda x, y: 0,
    "SELECT sum(s) AS v FROM (SELECT a.who, count(*) AS s FROM a JOIN b ON a.who = b.who "
    "GROUP BY a.who)": lambda x, y: x * y,
    "SELECT count(*) AS v FROM (SELECT a.who, row_number() OVER (PARTITION BY a.who) AS r "
    "FROM a JOIN b "
    "ON a.who = b.who) AS j JOIN kinds k ON k.rent = j.r": lambda x, y: x * y,
    "WITH j AS (SELECT a.who FROM a JOIN b ON a.who = b.who) SELECT count(*) AS v FROM j "
    "JOIN j AS i ON i.who = j.who": lambda x, y: x * y if x * y > MOST else out_of((x * y) ** 2, 4),
}

People = dict[int, tuple[list[tuple[str | None, int]], list[int]]]


def store(people: People, most: int | None = MOST) -> sparseq.Store:
    a = [{"who": w, "kind": k, "n": n} for w, (own, _) in people.items() for k, n in own]
    b = [{"who": w, "n": n} for w, (_, own) in people.items() for n in own]
    return sparseq.create(
        None,
        {"a": pa.Table.from_pylist(a, A), "b": pa.Table.from_pylist(b, B)},
        user="who",
        seed=1,
        public=PUBLIC,
        most={"people": 30} | ({} if most is None else {"work": most}),
        purposes=[sparseq.Questions(counts=100)],
    )


def charges(con: sparseq.Store, sql: str) -> tuple[dict[int, int], list[Any]]:
    """Return what each person is charged who is charged anything, and the sums."""
    plan = calibrate(con.lower(sql), con.guarantee, FINE)
    made = con.stream.engine.contributions(plan, con.stream.people.inside())
    users, found = price(plan, made)
    names = dict(con.backend.database.execute("SELECT _user, id FROM ledger.users").fetchall())
    paid = {names[u]: int(c) for u, c in zip(users.tolist(), found.tolist(), strict=True) if c}
    return paid, [m.totals.tolist() for m in made.measures]


def some_people(seed: int) -> People:
    """Return people of few rows and of many, in one table or in both."""
    rng = random.Random(seed)
    sizes = [(1, 0), (0, 3), (4, 1), (2, 6), (5, 5), (13, 0), (1, 1)]
    return {
        who: (
            [(rng.choice(["a", "a", "b", "z", None]), rng.randrange(3)) for _ in range(x)],
            [rng.randrange(3) for _ in range(y)],
        )
        for who, (x, y) in enumerate(sizes)
    }


PEOPLE = some_people(5)


@pytest.fixture(scope="module")
def stores() -> Any:
    """A crowd, the same without a limit, everybody alone, and the crowd without each of two."""
    alone = {who: store({who: own}) for who, own in PEOPLE.items()}
    left = {w: store({v: own for v, own in PEOPLE.items() if v != w}) for w in (4, 5)}
    return store(PEOPLE), store(PEOPLE, most=None), alone, left


@pytest.mark.parametrize("sql", one_in(2, JOINS))
def test_who_is_out_is_decided_by_their_own_rows(sql: str, stores: Any) -> None:
    """Alone, in a crowd, or without a limit: a person pays the same, or is out and pays nothing."""
    limited, unlimited, alone, left = stores
    crowd, sums = charges(limited, sql)
    everything, _ = charges(unlimited, sql)
    single = {who: charges(con, sql) for who, con in alone.items()}
    for who, (own, other) in PEOPLE.items():
        out = JOINS[sql](len(own), len(other)) > MOST
        assert crowd.get(who) == (None if out else everything.get(who)), who
        assert crowd.get(who) == single[who][0].get(who), who
    assert sums == [[sum(one[0][0] for _, one in single.values())]]
    for who, con in left.items():  # neighbours: the others' charges are what they were
        assert charges(con, sql)[0] == {w: c for w, c in crowd.items() if w != who}


def test_a_plain_scan_is_never_cut() -> None:
    con = store({1: ([("a", 1)] * 50, [1] * 50), 2: ([("b", 1)], [])}, most=1)
    for sql in (
        "SELECT count(*) AS n FROM a",
        "SELECT count(*) AS n FROM a WHERE n = 1 AND kind <> 'z'",
        "SELECT sum(m) AS n FROM (SELECT who, count(*) AS m FROM a GROUP BY who)",
        "SELECT count(*) AS n FROM a JOIN kinds k ON k.kind = a.kind",
        "SELECT count(*) AS n FROM a JOIN (SELECT who, max(n) AS m FROM b GROUP BY who) AS l "
        "ON l.who = a.who",
    ):
        query = con.lower(sql)
        assert query.relation.caps == ()
        assert 1 in charges(con, sql)[0]


def test_rows_of_who_is_out_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand rows in three tables would be 10**9; those of others are made as ever."""
    con = store({1: ([("a", 1)] * 1000, []), 2: ([("a", 1)] * 3, [])}, most=None)
    fetched, fetch = [], Reader.fetch

    def counted(self: Reader, sql: str) -> Any:
        arrays = fetch(self, sql)
        fetched.append(len(arrays[0]))
        return arrays

    monkeypatch.setattr(Reader, "fetch", counted)
    sql = "SELECT count(*) AS n FROM a JOIN a AS b ON a.who = b.who JOIN a AS c ON a.who = c.who"
    assert list(charges(con, sql)[0]) == [2]
    assert sum(fetched) == 27


@pytest.mark.parametrize("people", [[1, 1, 2, 3], [2, 3]], ids=["there", "not there"])
def test_public_tables_that_multiply_are_refused_whoever_is_there(people: list[int]) -> None:
    """It overflowed a sum only if person 1 was there: an exact, free answer about anybody."""
    con = sparseq.create(
        None,
        {"t": pa.table({"who": people})},
        user="who",
        public={"p": pa.table({"j": list(range(1000))})},
    )
    sql = (
        "SELECT count(*) AS n FROM (SELECT a0.who, sum(CASE WHEN a0.who = 1 THEN 9.9e18 END) AS s "
        "FROM t a0 JOIN p p0 ON true JOIN p p1 ON true JOIN p p2 ON true WHERE a0.who = 1 "
        "GROUP BY a0.who) WHERE s > 0"
    )
    with pytest.raises(QueryRefused, match="one row could become 1,000,000,000 rows"):
        con.lower(sql)


def test_a_public_factor_has_two_limits() -> None:
    con = store({1: ([("a", 1)], [])}, most=8)
    assert con.lower("SELECT count(*) AS n FROM a, kinds k").relation.caps != ()
    with pytest.raises(QueryRefused, match="9 rows; the limit is 8"):
        con.lower("SELECT count(*) AS n FROM a, kinds k, kinds l")
    many = sparseq.create(
        None,
        {"t": pa.table({"who": [1]})},
        user="who",
        seed=1,
        public={"p": pa.table({"j": list(range(MAX_FACTOR + 1))})},
    )
    with pytest.raises(QueryRefused, match="add ON column"):
        many.lower("SELECT count(*) AS n FROM t, p")
    assert many.lower("SELECT count(*) AS n FROM t JOIN p ON p.j = t.who").relation.caps == ()


def public(alias: str) -> FromItem:
    return FromItem(alias, False, set(), {}, derived=f"({alias})")


def test_a_factor_goes_from_what_is_there_to_what_is_joined_to_it() -> None:
    def most_rows(rows: str, keys: Any) -> int:
        return {"p": (100, 4), "q": (50, 1)}[rows[1]][bool(keys)]

    private, p, q = FromItem("t", True, {"who"}, {}, derived="(t)"), public("p"), public("q")
    to_t = Equality("p", "p.k", frozenset(["t"]))
    to_p, to_q = Equality("q", "q.k", frozenset(["p"])), Equality("p", "p.k", frozenset(["q"]))
    assert factor([private, p, q], [], most_rows) == 5000
    assert factor([private, p, q], [to_t, to_p], most_rows) == 4
    assert factor([private, q, p], [to_p, to_q], most_rows) == 200  # a bound, if not the least
    assert factor([p, private], [to_t], most_rows) == 4


@pytest.mark.parametrize(
    ("type", "other", "key"),
    [
        ("BIGINT", "INTEGER", "k"),
        ("VARCHAR", "VARCHAR", "k"),
        ("VARCHAR", "BIGINT", "TRY_CAST(k AS BIGINT)"),  # '1' and '01' are one key
        ("BIGINT", "DOUBLE", "TRY_CAST(k AS DOUBLE)"),
        ("DOUBLE", "FLOAT", "TRY_CAST(k AS FLOAT)"),
        ("DATE", "VARCHAR", "k"),
        ("DATE", "TIMESTAMP", "k"),
        ("BIGINT", "", ""),
        ("BIGINT", '"NULL"', ""),
    ],
)
def test_keys_are_counted_as_they_are_compared(type: str, other: str, key: str) -> None:
    assert key_sql("k", type, other) == key


def test_texts_that_are_one_number_are_one_key() -> None:
    con = sparseq.create(
        None,
        {"t": pa.table({"who": [1], "n": [1]})},
        user="who",
        seed=1,
        public={"p": pa.table({"k": ["1", "01", "001", "x"]})},
    )
    (cap,) = con.lower("SELECT count(*) AS n FROM t JOIN p ON p.k = t.n").relation.caps
    assert f"HAVING count(*) > {MOST_WORK // 3}" in cap.sql


def test_products_do_not_overflow() -> None:
    con = store({1: ([("a", 1)] * 7, [1] * 5)}, most=10**12)
    sql = "SELECT count(*) AS n FROM a" + "".join(
        f" JOIN {'ab'[i % 2]} AS t{i} ON t{i}.who = a.who" for i in range(20)
    )
    assert charges(con, sql)[0] == {}  # 7 ** 11 * 5 ** 10 combinations
    con = store({1: ([("a", 1)], [1])}, most=10**12)
    assert charges(con, sql)[0] != {}


def test_the_limit_is_kept_and_an_older_store_has_the_default(tmp_path: Path) -> None:
    path = tmp_path / "a.sparseq"
    rows = pa.table({"who": [1]})
    with sparseq.create(path, {"t": rows}, user="who", most={"work": 77}) as con:
        assert con.most == {"work": 77}
    with sparseq.connect(path) as con:
        assert con.most == {"work": 77}
        known = Storage(con.backend.database).get("settings")
        known.pop("most")
        Storage(con.backend.database).put("settings", known)
    with sparseq.connect(path) as con:
        assert con.most == {"work": MOST_WORK}


@pytest.mark.parametrize("most", [{"work": 0}, {"work": 1.5}, {"work": True}, {"cols": 5}])
def test_a_limit_that_makes_no_sense_is_refused(most: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        sparseq.create(None, {"t": pa.table({"who": [1]})}, user="who", most=most)


def test_ingested_rows_count() -> None:
    con = store({1: ([("a", 1)] * 3, []), 2: ([("a", 1)], [])}, most=9)
    sql = "SELECT count(*) AS n FROM a JOIN a AS c ON a.who = c.who"
    assert set(charges(con, sql)[0]) == {1, 2}
    con.ingest(pa.Table.from_pylist([{"who": 1, "kind": "a", "n": 1}], A), "a")
    assert set(charges(con, sql)[0]) == {2}


def test_what_is_said_of_a_cap() -> None:
    con = store({1: ([("a", 1)], [])})
    (note,) = con.lower("SELECT count(*) AS n FROM a, kinds k").notes
    assert note.startswith(
        "whose rows make more than 12 combinations in a join, or of lists, is left out"
    )
    assert con.lower("SELECT count(*) AS n FROM a").notes == ()


def test_the_default_cuts_less_than_a_thousandth_of_the_rows_in_a_self_join() -> None:
    """Of CDNOW; what flights and the generated events have stands at `MOST_WORK`."""
    purchases = pl.read_parquet(ROOT / "data" / "cdnow.parquet")
    own = purchases.group_by("customer_id").len()["len"]
    assert int(own.max()) ** 2 <= MOST_WORK  # type: ignore[arg-type]
