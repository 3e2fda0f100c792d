"""How much memory DuckDB may take of the machine's."""

from __future__ import annotations

import os

import duckdb

_LEAST_MB, _MB_A_CORE, _BYTES_A_PERSON = 512, 128, 256
"""What DuckDB may hold of an open store: pages of the file, which else it keeps for as long as
there is memory; what a query needs, which beyond this goes to `STORE.tmp`; and what can't go there,
the charges of a release (about 2 bytes a person) and those read when a store is opened."""


def limit_memory(connection: duckdb.DuckDBPyConnection) -> None:
    """Say how much an open store's database may take."""
    ((people,),) = connection.execute("SELECT count(*) FROM ledger.users").fetchall()
    cores = os.cpu_count() or 1
    most = max(_LEAST_MB, _MB_A_CORE * cores, (_BYTES_A_PERSON * people) >> 20)
    connection.execute(f"SET memory_limit = '{min(most, (machine_memory() * 3 // 4) >> 20)}MiB'")


def machine_memory() -> int:
    """Return the machine's memory in bytes."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 1 << 32
