"""A real PostgreSQL with the shop's tables, empty: the oracle of the catalogue."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from sparseq.pgwire._duckdb.pg_catalog import OURS, CatalogueTable, listed
from sparseq.question.catalog import Catalog

_TYPES = {
    16: "bool",
    20: "int8",
    21: "int2",
    23: "int4",
    25: "text",
    700: "float4",
    701: "float8",
    1082: "date",
    1114: "timestamp",
    1700: "numeric",
}


@contextmanager
def postgresql(catalog: Catalog, folder: Path) -> Iterator[int]:
    """Yield the port of a server with the tables of a catalog in its database `shop`."""
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed")
    for name in ("initdb", "postgres"):
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
    user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
    data = folder / "data"
    data.mkdir()
    if user is not None:
        os.chown(data, user.pw_uid, user.pw_gid)
        for parent in (folder, *folder.parents):
            if parent.owner() == "root" and parent not in (Path("/"), Path("/tmp")):
                parent.chmod(parent.stat().st_mode | 0o011)
    as_user: dict[str, Any] = {"user": user.pw_uid, "group": user.pw_gid} if user else {}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    made = [
        "initdb",
        "-D",
        str(data),
        "-U",
        "curator",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "-N",
        "--locale=C",
    ]
    subprocess.run(made, check=True, capture_output=True, cwd=data, **as_user)
    options = ["-c", "timezone=UTC", "-c", "fsync=off", "-c", "listen_addresses=127.0.0.1"]
    command = ["postgres", "-D", str(data), "-p", str(port), "-k", str(data), *options]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=data, **as_user)
    try:
        assert server.stderr is not None
        for line in server.stderr:
            if "ready to accept connections" in line:
                break
        where = f"host=127.0.0.1 port={port} user=curator"
        with psycopg.connect(f"{where} dbname=postgres", autocommit=True) as con:
            for statement in _declared([*listed(catalog), *OURS]):
                con.execute(statement)
        with psycopg.connect(f"{where} dbname=template1", autocommit=True) as con:
            con.execute("ALTER DATABASE postgres RENAME TO shop")
        yield port
    finally:
        server.terminate()
        server.wait(30)


def _declared(tables: Sequence[CatalogueTable]) -> Iterator[str]:
    for table in tables:
        if table.schema != "public":
            yield f"CREATE SCHEMA IF NOT EXISTS {table.schema}"
        columns = ", ".join(
            f'"{name}" {_TYPES[oid]}{" NOT NULL" * (name in table.not_null)}'
            for name, oid, _ in table.columns
        )
        name = f'{table.schema}."{table.name}"'
        yield f"CREATE TABLE {name} ({columns})"
        if table.words:
            yield f"COMMENT ON TABLE {name} IS '{table.words}'"
        for column, _, words in table.columns:
            if words:
                yield f"COMMENT ON COLUMN {name}.\"{column}\" IS '{words}'"
