"""Commands of the operator to a server on its machine, without a token: a backup.

A Unix socket in a folder that only the server's own user may enter; the file in the store's folder
with the server's addresses also has the address of the socket. A user with access to it may read
the store's file too. A request is one line of JSON, and so is its answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparseq.base.errors import SparseqError, StoreError
from sparseq.server.service import Service
from sparseq.store._duckdb.backup import Backup, backup
from sparseq.store.address import CONTROL, served_at

if TYPE_CHECKING:
    from sparseq.server.service import Service

LOG = logging.getLogger("sparseq.server")


@contextlib.asynccontextmanager
async def control(service: Service) -> AsyncIterator[Path]:
    """Listen during the block; yield the address."""
    given = os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]  # from systemd
    folder = Path(tempfile.mkdtemp(prefix="sparseq-", dir=given or None))  # for its owner alone
    path = folder / "control"
    server = await asyncio.start_unix_server(partial(_answer, service), path)
    try:
        yield path
    finally:
        server.close()
        shutil.rmtree(folder, ignore_errors=True)


async def _answer(
    service: Service, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    with contextlib.suppress(ConnectionError, ValueError, KeyError, TypeError):
        said = await _done(service, json.loads(await reader.readline()))
        writer.write(json.dumps(said).encode() + b"\n")
        await writer.drain()
    writer.close()


async def _done(service: Service, request: dict[str, Any]) -> dict[str, Any]:
    path = Path(str(request["backup"]))
    try:
        made = await service.operate(lambda store: backup(store, path))
    except SparseqError as error:
        return {"error": [error.message, error.hint]}
    told = partial(service.desk.tell, "backup", "", source="control", file=path.name)
    await service.write(told)
    return asdict(made)


def served_backup(store: Path, path: Path) -> Backup | None:
    """Ask the server of a store to write a backup; return None if there is no server.

    Raises:
        StoreError: The backup failed.
    """
    where = [line.removeprefix(CONTROL) for line in served_at(store) if line.startswith(CONTROL)]
    if not where:
        return None
    try:
        with socket.socket(socket.AF_UNIX) as asked:
            asked.connect(where[0])
            asked.sendall(json.dumps({"backup": str(path.resolve())}).encode() + b"\n")
            with asked.makefile() as answer:
                said = json.loads(answer.readline())
    except (OSError, ValueError):
        raise StoreError(
            f"the server of {store} could not be asked for a backup",
            "run this as the user that the server runs as",
        ) from None
    if "error" in said:
        raise StoreError(*said["error"])
    return Backup(**said)
