"""What a curator does over HTTP: bring rows, make tokens, read the audit log, make backups.

What these answer may be exact and private: they are for the curator's role alone.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from starlette.responses import Response

from sparseq._duckdb.backup import Backup, backup
from sparseq.errors import ParameterError, ServerError, Why
from sparseq.formats import format_of
from sparseq.json_text import json_text
from sparseq.server.http.endpoints import Call, as_json
from sparseq.server.tokens import Quota, Role
from sparseq.store import Store

MOST_ROWS_BODY = 16 << 30
"""Bytes of a file of rows."""
_MOST_DAYS = 36500
TOKEN = {"name": "string", "role": "string", "quota": "string", "days": "number"}


async def ingest(call: Call) -> Response:
    """Add the rows of a file, the body: all of them or none. `?name=march.csv`, `?table=`.

    `?once=KEY` stands for these rows: sent again under it, nothing is loaded twice.
    """
    query = call.request.query_params
    named = Path(query.get("name", "")).name
    if not format_of(Path(named))[0]:
        raise ParameterError(
            f"name is {named[:60]!r}", "give the file's, such as ?name=march.parquet: it says how "
            "the body is read"
        )  # fmt: skip
    table, once = query.get("table"), query.get("once")
    with tempfile.TemporaryDirectory(prefix="sparseq") as folder:
        path = Path(folder) / named
        size = 0
        with path.open("wb") as file:
            async for part in call.request.stream():
                size += len(part)
                if size > MOST_ROWS_BODY:
                    raise ServerError(Why.SIZE, f"a file has {MOST_ROWS_BODY:,} bytes at most")
                file.write(part)

        def load(store: Store) -> dict[str, Any]:
            told = len(store.curator_notes())
            rows = store.ingest(path, table, once=once)
            return {"rows": rows, "notes": store.curator_notes()[told:]}

        done = await call.service.call(call.who, load)
    call.service.note(call.who, "ingested", file=named, table=table or "", bytes=size)
    return as_json(done)


async def tokens(call: Call) -> Response:
    """The tokens: names, roles, quotas; never a token."""
    return as_json(call.service.tokens.every())


async def make_token(call: Call) -> Response:
    """Make a token, and show it this once. `days` is how long it is valid."""
    fields = await call.fields(*TOKEN)
    name, role, quota = (
        str(fields.get(k, v)) for k, v in (("name", ""), ("role", "analyst"), ("quota", ""))
    )
    days = fields.get("days")
    if role not in list(Role):
        raise ParameterError(f"role is {role[:40]!r}", f"one of {', '.join(Role)}")
    if days is not None and (not isinstance(days, int) or not 1 <= days <= _MOST_DAYS):
        raise ParameterError(f"days is {str(days)[:40]!r}", f"from 1 to {_MOST_DAYS:,}")
    expires = None if days is None else dt.timedelta(days=days)
    made = call.service.tokens.create(name, Role(role), Quota.parse(quota), expires)
    call.service.note(call.who, "token made", token=name, role=role, quota=quota)
    return as_json({"name": name, "token": made}, 201)


async def revoke_token(call: Call) -> Response:
    """End a name's token at once, in open connections too."""
    name = call.request.path_params["name"]
    if not call.service.tokens.revoke(name):
        raise ServerError(Why.ABSENT, f"{name[:70]!r} has no valid token")
    call.service.note(call.who, "token revoked", token=name)
    return as_json({"revoked": name})


async def jobs(call: Call) -> Response:
    """What the server does by itself, and how far it is."""
    return as_json([asdict(state) for state in call.service.jobs])


async def audit(call: Call) -> Response:
    """The last lines of the audit log, newest first; `?last=`."""
    last = call.number("last", 100, 1, 10_000)
    return as_json(list(call.service.desk.audit.lines())[-last:][::-1])


async def make_backup(call: Call) -> Response:
    """Write a whole copy of the store into the server's folder of backups."""
    folder = call.service.backups
    if folder is None:
        raise ParameterError("the server has no folder of backups", "sparseq serve --backups DIR")
    now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H%M%S")
    path = folder / f"{call.service.name}-{now}.sparseq"
    made: Backup = await call.service.call(call.who, lambda store: backup(store, path))
    call.service.note(call.who, "backup", file=path.name)
    return Response(json_text({"file": path.name} | asdict(made), None), 201)
