"""A client of the server that records each of its requests and replies."""

from __future__ import annotations

import http.client
import json
import random
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import psycopg

from checks.judge.book import COMMON
from checks.judge.random_questions import question
from checks.judge.server_process import Server


class Refused(Exception):
    """The server said that nothing was answered; `why` is its word."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


LOST = (OSError, http.client.HTTPException, psycopg.OperationalError, TimeoutError)
"""Nobody can tell whether it was answered."""


def post(url: str, path: str, token: str, body: bytes, **headers: str) -> dict[str, Any]:
    """Send a request, and return its answer.

    Raises:
        Refused: Nothing was done.
        OSError, http.client.HTTPException: Nobody can tell.
    """
    place = urlsplit(url)
    con = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    try:
        con.request("POST", path, body, {"Authorization": f"Bearer {token}"} | headers)
        reply = con.getresponse()
        said = json.loads(reply.read())
    except ValueError as error:
        raise http.client.HTTPException(str(error)) from None
    finally:
        con.close()
    if reply.status >= 400:
        error = said["error"]
        if error["charged"] is False:
            raise Refused(error["type"] + ": " + error["message"])
        raise http.client.HTTPException(error["message"])
    return dict(said)


@dataclass
class Client:
    """A client that asks in one way.

    Attributes:
        name, token: Of the asker.
        way: "http" or "pg".
        fresh: True if most questions have no name; otherwise all have one.
    """

    name: str
    token: str
    way: str
    draw: random.Random
    number: int = 0

    def next(self) -> dict[str, Any]:
        """Return what to ask next."""
        named = self.way == "pg" or self.name == "quota" or self.draw.random() < 0.5
        common = random.Random(self.draw.randrange(COMMON))  # asked again and again
        sql, parts = question(self.draw if named else common)
        fresh = not named and self.draw.random() < 0.3
        request = None
        if named:
            self.number += 1
            request = f"client/{self.name}/{self.number}"
        return {
            "name": self.name,
            "way": self.way,
            "sql": sql,
            "parts": parts,
            "request": request,
            "fresh": fresh,
        }

    def ask(self, server: Server, asked: dict[str, Any]) -> dict[str, Any]:
        """Ask, and return the answer for the history; raises `Refused`, or one of `LOST`."""
        id = (asked["request"] or "").rpartition("/")[2]
        return (self._pg if self.way == "pg" else self._http)(server, asked, id)

    def _http(self, server: Server, asked: dict[str, Any], id: str) -> dict[str, Any]:
        body = json.dumps({"sql": asked["sql"], "fresh": asked["fresh"]}).encode()
        named = {"Idempotency-Key": id} if id else {}
        said = post(server.url, "/v1/query", self.token, body, **named)
        return {
            "release": said["release"],
            "repeat": said["repeat"],
            "rows": said["rows"],
            "follows": said.get("follows", False),
        }

    def _pg(self, server: Server, asked: dict[str, Any], id: str) -> dict[str, Any]:
        place = server.pg.replace("://", f"://{self.name}:{self.token}@") + "/s"
        try:
            with psycopg.connect(place, autocommit=True, connect_timeout=20) as con:
                notices: list[str] = []
                con.add_notice_handler(lambda d: notices.append(d.message_primary or ""))
                con.execute(f"SET sparseq.request_id = '{id}'")
                found = con.execute(asked["sql"])
                names = [column.name for column in found.description or ()]
                rows = [dict(zip(names, map(_number, row), strict=True)) for row in found]
        except psycopg.Error as error:
            if error.sqlstate and error.sqlstate[:2] not in ("40", "57", "08", "XX"):
                raise Refused("quota" if error.sqlstate == "53400" else str(error)) from None
            raise OSError(str(error)) from None
        again = [int(m[1]) for text in notices if (m := re.match(r"release (\d+) again", text))]
        return {
            "release": again[0] if again else None,
            "repeat": bool(again),
            "rows": rows,
            "follows": False,
        }


def _number(value: Any) -> float | None:
    """Return a number of an answer; None: the group of those without a key."""
    return None if value is None else float(value)
