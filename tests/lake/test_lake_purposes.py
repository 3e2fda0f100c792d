"""Parts of budgets in a lake: as in a store in one file, of new people too, and opened anew."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa

import sparseq
from checks.stores import made_store
from sparseq.ledger.pots import Pot
from sparseq.ledger.purposes import Purpose
from sparseq.question.plan import Options
from sparseq.store.store import Store
from sparseq.stream.new_purpose import add_purpose

DAYS = 6
SQL = "SELECT count(DISTINCT who) AS n FROM t WHERE day = {}"


def rows(first: int, last: int) -> pa.Table:
    rng = random.Random(first)
    pairs = [(w, d) for w in range(first, last) for d in range(DAYS) if rng.random() < 0.5]
    return pa.table({"who": [w for w, _ in pairs], "day": [d for _, d in pairs]})


def asked(con: Store, day: int, pot: Pot) -> None:
    con.step(con.lower(SQL.format(day)), con.stream.contributions, Options(sigma=3.0), pot=pot)


def parts(con: Store) -> dict[int, list[tuple[int, int]]]:
    """What everybody has and has spent of each pot, by identifier."""
    people = con.backend.people().inside().tolist()
    names = con.stream.ledger.identifiers(people)
    pots = [accounts for _, accounts in con.stream.pots.items()]
    return {names[u]: [(int(a.budgets[u]), int(a.spent[u])) for a in pots] for u in people}


def lived(con: Store) -> dict[int, list[tuple[int, int]]]:
    (first,) = con.promise.purposes
    for day in range(3):
        asked(con, day, Pot(first.answers))
        asked(con, day, Pot.QUERIES)
    later = add_purpose(con.stream, Purpose("later", 0.5, 4))
    asked(con, 4, Pot(later.answers))
    con.ingest(rows(20, 26), again=True)
    asked(con, 5, Pot(later.answers))
    return parts(con)


def test_a_lake_has_the_parts_of_a_store_in_one_file(tmp_path: Path) -> None:
    how = {"user": "who", "table": "t", "in_or_out": True, "norm_budget": 9.0, "seed": 1}
    part = [Purpose("first", 0.4, 6, 2.0)]
    with made_store(None, rows(0, 20), purposes=part, **how) as con:
        alone = lived(con)
    lake = f"lake://{tmp_path / 'lake'}"
    with made_store(lake, rows(0, 20), purposes=part, buckets=3, **how) as con:
        assert lived(con) == alone
    with sparseq.connect(lake) as con:
        assert parts(con) == alone
        assert [p.name for p in con.promise.purposes] == ["first", "later"]
        con.stream.ledger.audit()
