"""A curator's endpoints: load rows, create tokens, read the audit log, make backups.

Their answers may be exact and private: they are for the curator's role only.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import tempfile
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from starlette.responses import Response

from sparseq.base.errors import ParameterError, ServerError, Why
from sparseq.base.json_text import json_text
from sparseq.load.open_sources import readable_format
from sparseq.server.fields import InputField, InputType
from sparseq.server.http.endpoints import Call, as_json, parts_of
from sparseq.server.tokens import Quota, Role
from sparseq.store._duckdb.backup import Backup, backup
from sparseq.store.store import Store

MOST_ROWS_BODY = 16 << 30
"""The maximum bytes of a file of rows."""
NEW_TOKEN = {
    "name": InputField(InputType.TEXT, 1, 63, needed=True),
    "role": InputField(
        InputType.TEXT, default=Role.ANALYST.value, choices=tuple(r.value for r in Role)
    ),
    "quota": InputField(InputType.TEXT, most=63, default=""),
}
TOKEN = NEW_TOKEN | {"days": InputField(InputType.WHOLE, 1, 36500)}
NAME = {"name": InputField(InputType.TEXT, 1, 100, needed=True)}
ROWS = {
    "name": InputField(
        InputType.TEXT, 1, 255, needed=True, about="the file's, such as ?name=march.parquet"
    ),
    "table": InputField(InputType.TEXT, 1, 255),
    "once": InputField(InputType.TEXT, 1, 255),
}
AUDITED = {"last": InputField(InputType.WHOLE, 1, 10_000, default=100)}


async def ingest(call: Call) -> Response:
    """Add the rows of a file, the body: all or none. `?name=march.csv`, `?table=`.

    `?once=KEY` identifies these rows: with the same key, nothing is loaded twice.
    """
    table, once = call.given["table"], call.given["once"]
    named = Path(call.given["name"]).name
    if not readable_format(Path(named)):
        raise ParameterError(
            f"name is {named[:60]!r}",
            "give the file's, such as ?name=march.parquet: it determines the format of the body",
        )
    folder = await asyncio.to_thread(partial(tempfile.TemporaryDirectory, prefix="sparseq"))
    try:
        path, size = Path(folder.name) / named, 0
        with await asyncio.to_thread(path.open, "wb") as file:
            async for part in parts_of(call.request, MOST_ROWS_BODY):
                size += await asyncio.to_thread(file.write, part)

        def load(store: Store) -> dict[str, Any]:
            told = len(store.curator_notes())
            rows = store.ingest(path, table, once=once)
            return {"rows": rows, "notes": store.curator_notes()[told:]}

        done = await call.service.call(call.who, load)
    finally:
        await asyncio.to_thread(folder.cleanup)
    await call.service.note(call.who, "ingested", file=named, table=table or "", bytes=size)
    return as_json(done)


async def tokens(call: Call) -> Response:
    """The tokens: names, roles, quotas; never a token."""
    return as_json(call.service.tokens.every())


async def make_token(call: Call) -> Response:
    """Create a token, and show it once. `days` is its lifetime."""
    days = call.given["days"]
    made = await create_token(call, None if days is None else dt.timedelta(days=days))
    return as_json({"name": call.given["name"], "token": made}, 201)


async def create_token(call: Call, expires: dt.timedelta | None = None) -> str:
    """Create the token of a call, and write it to the audit log."""
    name, role, quota = (call.given[key] for key in NEW_TOKEN)
    make = call.service.tokens.create
    made = await call.service.write(make, name, Role(role), Quota.parse(quota), expires)
    await call.service.note(call.who, "token made", token=name, role=role, quota=quota)
    return made


async def revoke_token(call: Call) -> Response:
    """End a name's token at once, in open connections too."""
    if not await revoked(call):
        raise ServerError(Why.ABSENT, f"{call.given['name']!r} has no valid token")
    return as_json({"revoked": call.given["name"]})


async def revoked(call: Call) -> int:
    """Revoke the token of a call, and write it to the audit log; return the number of revoked
    tokens.
    """
    name = call.given["name"]
    ended = await call.service.write(call.service.tokens.revoke, name)
    if ended:
        await call.service.note(call.who, "token revoked", token=name)
    return ended


async def jobs(call: Call) -> Response:
    """List the server's jobs, and their progress."""
    return as_json([asdict(state) for state in call.service.jobs])


async def audit(call: Call) -> Response:
    """The last lines of the audit log, newest first; `?last=`."""
    lines = await call.service.audited(call.given["last"])
    return await asyncio.to_thread(as_json, lines)


async def make_backup(call: Call) -> Response:
    """Write a whole copy of the store into the server's folder of backups."""
    folder = call.service.backups
    if folder is None:
        raise ParameterError("the server has no folder of backups", "sparseq serve --backups DIR")
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H%M%S")
    path = folder / f"{call.service.name}-{now}.sparseq"

    def copy(store: Store) -> Backup:
        if path.exists():
            raise ServerError(
                Why.BUSY,
                ("a backup was made in this second already"),
                "wait a second, then ask again",
            )
        return backup(store, path)

    made: Backup = await call.service.call(call.who, copy)
    await call.service.note(call.who, "backup", file=path.name)
    return Response(json_text({"file": path.name} | asdict(made), None), 201)
