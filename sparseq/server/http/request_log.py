"""JSON logs of a server, one line per record, with the id of the request.

A request has the id that its client sent as `X-Request-ID`, if that is a plain word, or a new one;
the response has it too. Lines contain no value of a row, no answer and no token; they have the
requested address, the user, and the outcome.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import re
import secrets
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from contextvars import ContextVar
from typing import Any

REQUEST_ID = "x-request-id"
_PLAIN = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_LOG = logging.getLogger("sparseq.requests")
_request: ContextVar[str] = ContextVar("request", default="")
_App = Callable[..., Awaitable[None]]


class JsonLines(logging.Formatter):
    """A line of JSON for each record.

    Example:
        >>> said = logging.LogRecord("sparseq", logging.INFO, "", 0, "it ends", None, None)
        >>> json.loads(JsonLines().format(said))["message"]
        'it ends'
    """

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        at = dt.datetime.fromtimestamp(record.created, dt.UTC)
        facts: dict[str, Any] = {
            "at": at.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request := _request.get():
            facts["request"] = request
        facts |= getattr(record, "facts", {})
        if record.exc_info:
            facts["error"] = self.formatException(record.exc_info)
        return json.dumps(facts, ensure_ascii=False)


def log_as_json() -> None:
    """Write this process's logs as JSON to standard error, with one line for each request."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for name in ("sparseq.server", "sparseq.requests"):
        logging.getLogger(name).setLevel(logging.INFO)


def with_request_ids(app: _App) -> _App:
    """Return an application that gives each request an id and one line in the log."""

    async def identified(scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        given = dict(scope.get("headers", ())).get(REQUEST_ID.encode(), b"").decode("latin-1")
        name = given if _PLAIN.fullmatch(given) else secrets.token_hex(8)
        token, status = _request.set(name), 0

        async def sending(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message.get("headers", ()), (REQUEST_ID.encode(), name.encode())]
                message = {**message, "headers": headers}
            await send(message)

        try:
            await app(scope, receive, sending)
        finally:
            who = getattr(scope.get("state", {}).get("who"), "name", "")
            facts = {"method": scope["method"], "path": scope["path"], "status": status}
            _LOG.info("answered", extra={"facts": facts | ({"user": who} if who else {})})
            _request.reset(token)

    return identified
