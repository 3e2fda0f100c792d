"""The memory that a store may take: all that is held is a part of one limit.

a quarter   columns that were read, while a store is open
a sixth     rows that are loaded; while they are sorted, three times as much
a half      DuckDB, at most; what it needs beyond that goes to the disk
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import duckdb

from sparseq.base.errors import ParameterError

MEMORY = "SPARSEQ_MEMORY"
"""The variable of the environment that says the limit; else it is the machine's memory."""
LEAST = 512 << 20
_UNITS = {"MB": 20, "MIB": 20, "GB": 30, "GIB": 30, "TB": 40, "TIB": 40}
_LEAST_MB, _MB_A_CORE, _BYTES_A_PERSON = 384, 128, 256
"""What DuckDB may hold of an open store: pages of the file, which else it keeps for as long as
there is memory; what a query needs, which beyond this goes to `STORE.tmp`; and what can't go there,
the charges of a release (about 2 bytes a person) and those read when a store is opened."""


CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Files in which Linux says how much memory a group of processes may have."""


def limit_memory(connection: duckdb.DuckDBPyConnection) -> None:
    """Say how much an open store's database may take."""
    ((people,),) = connection.execute("SELECT count(*) FROM ledger.users").fetchall()
    cores = os.cpu_count() or 1
    most = max(_LEAST_MB, _MB_A_CORE * cores, (_BYTES_A_PERSON * people) >> 20)
    connection.execute(f"SET memory_limit = '{min(most, loading_bytes() >> 20)}MiB'")


def loading_bytes() -> int:
    """Return how many bytes DuckDB may hold while a store is made."""
    return machine_memory() // 2


def bytes_of(size: str) -> int:
    """Return how many bytes a size is.

    Raises:
        ParameterError: It is none, or too little to work with.

    Example:
        >>> bytes_of("2GB") == bytes_of("2048 MiB") == 2 << 30
        True
    """
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)\s*([MGT]i?B)", size.strip(), re.IGNORECASE)
    number = int(float(found[1]) * (1 << _UNITS[found[2].upper()])) if found else 0
    if number < LEAST:
        raise ParameterError(
            f"the memory {size!r} is {'too little' if found else 'no size'}",
            "for example 2GB; at least 512MB",
        )
    return number


def machine_memory() -> int:
    """Return the limit in bytes: what was said, or the machine's memory, or a container's of it.

    Raises:
        ParameterError: What SPARSEQ_MEMORY says is no size.
    """
    said = os.environ.get(MEMORY)
    if said:
        return bytes_of(said)
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        machine = 1 << 32
    return min([machine, *filter(None, map(_limit_in, CONTAINER_LIMITS))])


def _limit_in(file: str) -> int:
    """Return the number of bytes that a file says, 0 if it says none."""
    try:
        return int(Path(file).read_text())
    except (OSError, ValueError):
        return 0


def held_bytes() -> int:
    """Return how many bytes of rows may be held while they are loaded."""
    return machine_memory() // 6  # while they are sorted they take up to three times as much
