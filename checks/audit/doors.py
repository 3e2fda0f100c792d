"""Free public facts, before and after a question: in Python, and by HTTP.

An explanation, the budget, the catalogue and the history are functions of public facts and of
released answers. So they are the same in neighbouring stores, to the last byte.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, TypeVar

import httpx

from sparseq.server.http.app import application
from sparseq.server.service import Service
from sparseq.server.tokens import Role, Tokens
from sparseq.store.store import Store

T = TypeVar("T")
PAGES = ("/v1/budget", "/v1/catalog", "/v1/releases", "/metrics")


def explanation(store: Store, sql: str) -> tuple[str, str, str]:
    """Return all that `Store.explain` tells: as data, in words, and its price."""
    found = store.explain(sql)
    return repr(found.facts), found.styled, found.price


def standing(store: Store) -> tuple[str, ...]:
    """Return a store's public facts: its budget, course, schema and number of releases."""
    return (
        repr(store.budget()),
        repr(store.course_facts()),
        repr([(table, store.catalog.table(table)) for table in store.tables]),
        repr(store.released),
    )


class Served:
    """A store that is served by HTTP to one analyst, without sockets.

    Args:
        runner: Of the loop that it is served in.
        store: It belongs to the service until `close`, which closes it.
    """

    def __init__(self, runner: asyncio.Runner, store: Store) -> None:
        self._runner = runner
        self._service, self._client = runner.run(_begun(store))

    def post(self, path: str, **said: Any) -> tuple[int, str]:
        """Send a request with a body; return the reply's status and body."""
        reply = self._runner.run(self._client.post(path, json=said))
        return reply.status_code, _without_times(reply.text)

    def pages(self) -> list[str]:
        """Return the replies of the addresses about the store as a whole."""
        replies = [self._runner.run(self._client.get(path)) for path in PAGES]
        return [_without_times(reply.text) for reply in replies]

    def operate(self, call: Callable[[Store], T]) -> T:
        """Do something as the curator does: in the thread that owns the store."""
        return self._runner.run(self._service.operate(call))

    def close(self) -> None:
        """Stop serving, and close the store."""
        self._runner.run(self._client.aclose())
        self._runner.run(self._service.close())


def _without_times(text: str) -> str:
    """Return a reply without times, and without roots, which have a secret salt."""
    return re.sub(r'"(root|released_at)": "[^"]*"', r'"\1": ""', text)


async def _begun(store: Store) -> tuple[Service, httpx.AsyncClient]:
    tokens = Tokens(None)
    secret = tokens.create("ada", Role.ANALYST)
    service = Service(store, tokens, "shop")
    client = httpx.AsyncClient(
        transport=httpx.ASGITransport(application(service)),
        base_url="http://here",
        headers={"Authorization": f"Bearer {secret}"},
    )
    return service, client
