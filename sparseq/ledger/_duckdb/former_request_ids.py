"""Request ids of stores of format 3, which had one namespace: the asker is derived from them.

A watch's releases are paid from a pot that only a watch uses, and a training step's text is not
SQL: these are certain. A monitor's are recognised by their spelling, `monitor/NAME/TICK`; an
analyst's release with such a name becomes that series' answer to the same text, as it was before. A
replay's (`NAME: LINE`) look like any analyst's, and stay there: if a log is replayed again,
releases before the upgrade are found by the former spelling (`Journal`), and later ones are not.
"""

from __future__ import annotations

import re

import duckdb
import pyarrow as pa

from sparseq.ledger.pots import Pot
from sparseq.ledger.request_id import Asker, RequestId

FORMER = "last_release_without_askers"
"""The key in `meta` of the last release with former names."""
_TICK = re.compile(r"monitor/(.+)/(\d{4}-\d\d-\d\d(?:T[\d:.]+)?)", re.DOTALL)
_NODE = re.compile(r"watch/(\d+)(/alarm)?")


def name_askers(connection: duckdb.DuckDBPyConnection) -> None:
    """Move the request ids of a store of format 3 into their askers' namespaces.

    The caller begins the transaction; only the column `request_id` changes.
    """
    segments = connection.execute(
        "SELECT table_name FROM duckdb_tables() "
        "WHERE schema_name = 'ledger' AND table_name SIMILAR TO 'release_[0-9]+'"
    ).fetchall()
    last = 0
    for (segment,) in segments:
        rows = connection.execute(
            f"SELECT id, request_id, query, pot FROM ledger.{segment} ORDER BY id"
        ).fetchall()
        last = max([last, *(row[0] for row in rows)])
        ids = [(n, named(id, query, Pot(pot)).stored) for n, id, query, pot in rows if id]
        numbers, stored = zip(*ids, strict=True) if ids else ((), ())
        columns = [pa.array(numbers, pa.int64()), pa.array(stored, pa.string())]
        connection.register("named", pa.table(columns, names=["id", "request_id"]))
        connection.execute(
            f"UPDATE ledger.{segment} AS r SET request_id = named.request_id "
            "FROM named WHERE r.id = named.id"
        )
        connection.unregister("named")
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", [FORMER, str(last)])


def named(id: str, query: str, pot: Pot) -> RequestId:
    """Return the request id of a release of format 3, from its former id.

    >>> str(named("watch/3/alarm", "watch", Pot.WATCH)), named("watch/3", "SELECT", Pot.QUERIES)
    ('watch/3/alarm', RequestId(asker=<Asker.ANALYST: 'analyst'>, text='watch/3', question=''))
    """
    if pot is Pot.WATCH and (node := _NODE.fullmatch(id)):
        return RequestId.of(Asker.WATCH, *([node[1], "alarm"] if node[2] else [node[1]]))
    if tick := _TICK.fullmatch(id):
        return RequestId.of(Asker.MONITOR, tick[1], tick[2], question=query)
    run, slash, what = id.rpartition("/")
    if slash and query.startswith(f"train {run} (") and f"): {what}" in query:
        return RequestId.of(Asker.TRAIN, run, what)
    return RequestId.of_analyst(id)
