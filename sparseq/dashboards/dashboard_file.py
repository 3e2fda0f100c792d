"""The file of a dashboard: TOML with panels, each a title and a question.

    title = "The shop"

    [[panel]]
    title = "Orders by size, 28 days"
    sql = "SELECT size, count(*) AS n FROM orders WHERE day >= :today - 28 AND day < :today
           GROUP BY size"

Parameters are dates that move with the morning: `:today` is the first day that is not complete.
"""

from __future__ import annotations

import datetime as dt
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparseq.base.errors import ParameterError, did_you_mean
from sparseq.sql.parameters import QueryText, Value

MOST_PANELS = 100
_DAY = dt.timedelta(days=1)


@dataclass(frozen=True)
class Panel:
    """One panel: a title, and a question with parameters."""

    title: str
    text: QueryText

    def sql(self, today: dt.date) -> str:
        """Return the question of a morning."""
        return self.text.with_values(parameters(today))


@dataclass(frozen=True)
class Dashboard:
    """A dashboard: the name of its part of the budget, a title, and its panels."""

    name: str
    title: str
    panels: tuple[Panel, ...]

    @classmethod
    def read(cls, path: Path) -> Dashboard:
        """Read a file; its name without the ending is the dashboard's name.

        Raises:
            ParameterError: The file can't be read, or it is not a dashboard.
        """
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ParameterError(f"{path} can't be read: {error}") from None
        except tomllib.TOMLDecodeError as error:
            raise ParameterError(f"{path} is not TOML: {error}") from None
        return cls.of(path.stem, content)

    @classmethod
    def of(cls, name: str, content: Mapping[str, Any]) -> Dashboard:
        """Return the dashboard of a file's content.

        Example:
            >>> sql = "SELECT count(*) AS n FROM orders WHERE day = :yesterday"
            >>> found = Dashboard.of("shop", {"panel": [{"title": "Orders", "sql": sql}]})
            >>> found.panels[0].sql(dt.date(2024, 3, 1))
            "SELECT count(*) AS n FROM orders WHERE day = DATE '2024-02-29'"
        """
        _check_words(content, ("title", "panel"), "a dashboard")
        given = content.get("panel")
        if not isinstance(given, list) or not given:
            raise ParameterError("the dashboard has no panel", '[[panel]] title = "…" sql = "…"')
        if len(given) > MOST_PANELS:
            raise ParameterError(
                f"the dashboard has {len(given)} panels; the limit is {MOST_PANELS}", "make two"
            )
        panels = tuple(_panel(one) for one in given)
        titles = [panel.title for panel in panels]
        twice = [title for title in titles if titles.count(title) > 1]
        if twice:
            raise ParameterError(f"two panels are called {twice[0]!r}", "give each its own title")
        return cls(name, str(content.get("title", name)), panels)


def parameters(today: dt.date) -> dict[str, Value]:
    """Return the parameters of a morning.

    Example:
        >>> found = parameters(dt.date(2024, 3, 7))
        >>> [f"{name} {day:%d}" for name, day in found.items()]
        ['today 07', 'yesterday 06', 'week 04', 'month 01']
    """
    return {
        "today": today,
        "yesterday": today - _DAY,
        "week": today - today.weekday() * _DAY,
        "month": today.replace(day=1),
    }


def _panel(given: Any) -> Panel:
    if not isinstance(given, dict):
        raise ParameterError("a panel is not a table", '[[panel]] title = "…" sql = "…"')
    _check_words(given, ("title", "sql"), "a panel")
    title, sql = given.get("title"), given.get("sql")
    if not isinstance(sql, str) or not isinstance(title, str):
        raise ParameterError("a panel needs title and sql, both texts")
    return Panel(title, QueryText.of(sql))


def _check_words(given: Mapping[str, Any], known: tuple[str, ...], of: str) -> None:
    for word in given:
        if word not in known:
            raise ParameterError(
                f"nothing is said of {of} by {word}", did_you_mean(word, list(known))
            )
