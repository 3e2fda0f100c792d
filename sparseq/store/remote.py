"""A store on a server: queried over HTTP with a token, like an open store.

    con = sparseq.connect("https://numbers.example.org", token="sq_…")
    con.sql("SELECT count(*) AS n FROM purchases")

Answers equal the server's records to the last bit.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, Unpack
from urllib.parse import urlencode, urlsplit

from sparseq.accounting import Budget
from sparseq.answers.answer import Answer
from sparseq.base import errors
from sparseq.base.errors import ParameterError, ServerError, SparseqError, Why
from sparseq.question.catalog import Catalog
from sparseq.question.plan import Options, OptionWords
from sparseq.store.ask import Params, given_options
from sparseq.store.explain import Explanation

TOKEN = "SPARSEQ_TOKEN"
"""The environment variable with the token, if none is given."""
_ARROW = "application/vnd.apache.arrow.stream"
_IDLE = 2.0  # seconds, fewer than servers keep a connection


class Remote:
    """A served store. Threads may share it; use it as a context manager, or close it.

    Args:
        url: Address of the server: https://…, or http://… on this machine.
        token: A token from `sparseq token create`; by default the value of SPARSEQ_TOKEN.
        timeout: The most seconds for a request.

    Raises:
        ParameterError: The address is invalid, or there is no token.
    """

    def __init__(self, url: str, token: str | None = None, timeout: float = 600.0) -> None:
        parts = urlsplit(url)
        token = token or os.environ.get(TOKEN, "")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            raise ParameterError(f"{url!r} is no address of a server", "https://HOST[:PORT]")
        if parts.scheme == "http" and not _is_here(parts.hostname):
            raise ParameterError(
                f"{url} is not encrypted, and others would read the token", "use https://"
            )
        if not token:
            raise ParameterError("there is no token", f"give token=…, or set {TOKEN}")
        if not token.isascii() or not token.isprintable() or " " in token:
            raise ParameterError("that is no token", "they begin with sq_")
        self.url = url.rstrip("/")
        made = (
            http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        )
        self._last = 0.0  # time of the connection's last use
        self._http = made(parts.hostname, parts.port, timeout=timeout)
        self._base = parts.path.rstrip("/")
        self._token = token
        self._lock = threading.Lock()

    def sql(
        self,
        sql: str,
        params: Params | None = None,
        *,
        request_id: str | None = None,
        fresh: bool = False,
        timeout: float | None = None,
        **options: Unpack[OptionWords],
    ) -> Answer:
        """Answer an SQL query: see `sparseq.Store.sql`. Request ids belong to the token's name.

        Raises:
            TimedOut: The query took longer than `timeout` seconds; nothing was charged.
            QueryRefused: The query can't be answered privately; nothing was charged.
            ServerError: The server does not answer now, or not for this token; see its `why`.
        """
        return self.asked(sql, Options.of(**options), request_id, params, fresh, timeout)

    def asked(
        self,
        sql: str,
        options: Options | None = None,
        request_id: str | None = None,
        params: Params | None = None,
        fresh: bool = False,
        timeout: float | None = None,
    ) -> Answer:
        """Answer an SQL query with options; raises as `sql` does."""
        headers = {"Accept": _ARROW}
        if request_id:
            headers["Idempotency-Key"] = request_id
        options = options or Options()
        body = self._fields(sql, replace(options, columns=None), params) | (
            {"fresh": True} if fresh else {}
        )
        body |= {} if timeout is None else {"timeout": timeout}
        answer = Answer.from_bytes(self._call("POST", "/v1/query", body, headers))
        return answer.showing(options.columns)

    def explain(
        self,
        query: str,
        options: Options | None = None,
        params: Params | None = None,
        **words: Unpack[OptionWords],
    ) -> Explanation:
        """Explain a query in words and as `.facts`, without asking or charging it.

        Raises:
            QueryRefused: The query can't be answered privately.
        """
        fields = self._fields(query, given_options(options, words), params)
        facts = self._json("POST", "/v1/explain", fields)
        text = facts.pop("text")
        return Explanation(facts, text)

    @property
    def catalog(self) -> Catalog:
        """Its tables: public."""
        return Catalog.from_dict(self._json("GET", "/v1/catalog"))

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of its tables: public."""
        return tuple(table.name for table in self.catalog.tables)

    def budget(self) -> dict[str, Any]:
        """Return the promise of the store and the progress of its stream: public plain data."""
        facts: dict[str, Any] = self._json("GET", "/v1/budget")
        return facts

    def card(self, notes: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return the deployment card of the store: see `sparseq.store.StorePromise.card`."""
        query = f"?{urlencode(dict(notes))}" if notes else ""
        facts: dict[str, Any] = self._json("GET", f"/v1/card{query}")
        return facts

    @property
    def guarantee(self) -> Budget:
        """The promise about all answers together."""
        facts = self.budget()
        return Budget(
            facts["kappa"],
            facts["norm_budget"],
            facts["mu"] is not None,
            facts.get("keys_delta", 0.0),
        )

    @property
    def released(self) -> int:
        """Number of answers that were released: public."""
        return int(self.budget()["releases"])

    def releases(self, last: int = 100, before: int | None = None) -> list[dict[str, Any]]:
        """Return releases without their answers, oldest first; at most 1,000 at once."""
        query = {"last": last} | ({} if before is None else {"before": before})
        found: list[dict[str, Any]] = self._json("GET", f"/v1/releases?{urlencode(query)}")
        return found[::-1]

    def release(self, number: int) -> Answer:
        """Return a recorded answer; free.

        Raises:
            ServerError: There is no such release.
        """
        return Answer.from_bytes(
            self._call("GET", f"/v1/releases/{number:d}", None, {"Accept": _ARROW})
        )

    def post(self, path: str, body: bytes) -> bytes:
        """Send another kind of request to the server, and return the body of the response."""
        return self._call("POST", path, body)

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def __enter__(self) -> Remote:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Remote {self.url}>"

    def _fields(self, sql: str, options: Options | None, params: Params | None) -> dict[str, Any]:
        if params is not None:
            from sparseq.sql.parameters import bound

            sql = bound(sql, params)
        given = asdict(options or Options())
        return {"sql": sql} | {
            name: value for name, value in given.items() if value not in (None, False)
        }

    def _json(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return json.loads(self._call(method, path, body))

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        sent = {"Authorization": f"Bearer {self._token}"} | dict(headers or {})
        data = json.dumps(body).encode() if isinstance(body, Mapping) else body
        with self._lock:
            try:
                response, found = self._sent(method, self._base + path, data, sent)
            except (OSError, http.client.HTTPException) as error:
                self._http.close()
                raise ServerError(
                    Why.FAILED,
                    f"{self.url} can't be asked: {error or type(error).__name__}",
                    "if a question was under way, asking it again with its request_id is free",
                ) from None
        if response.status >= 400:
            raise _error(response.status, found)
        return found

    def _sent(
        self, method: str, path: str, data: bytes | None, headers: dict[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """Send a request; send it again if the server had closed the idle connection.

        Servers close connections that were idle for some seconds, so a new one is opened before
        that: a request on a connection that closes meanwhile may or may not have been asked.
        """
        now = time.monotonic()
        if now - self._last > _IDLE:
            self._http.close()
        self._last = now
        fresh = self._http.sock is None
        try:
            self._http.request(method, path, data, headers)
            response = self._http.getresponse()
        except (http.client.RemoteDisconnected, BrokenPipeError):
            self._http.close()
            if fresh or (method == "POST" and "Idempotency-Key" not in headers):
                raise
            self._http.request(method, path, data, headers)
            response = self._http.getresponse()
        return response, response.read()


def _is_here(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


_CANCELLED: dict[str, Callable[[str, str], SparseqError]] = {
    "timeout": errors.TimedOut,
    "cancelled": errors.QueryCancelError,
}


def _error(status: int, body: bytes) -> SparseqError:
    """Return a server's error response as the matching exception."""
    try:
        said = json.loads(body)["error"]
        kind, message, hint = str(said["type"]), str(said["message"]), str(said["hint"])
    except (ValueError, KeyError, TypeError):
        return ServerError(Why.FAILED, f"the server answered {status}", "is it a sparseq server?")
    if kind in _CANCELLED:
        return _CANCELLED[kind](message, hint)
    if kind in list(Why):
        return ServerError(Why(kind), message, hint)
    made = getattr(errors, kind, None)
    if isinstance(made, type) and issubclass(made, SparseqError) and made is not ServerError:
        return made(message, hint)
    return ServerError(Why.FAILED, message, hint)
