"""Lowering of queries that differ only in their dates, such as a query that repeats every day.

A date here is a quoted date, or a date with a time of day, as in a query that repeats every hour. A
date that is compared with a timestamp is lowered to its midnight, and is found by it. Once two
queries of one shape have lowered to the same result except for the dates in their WHERE, a third is
made by inserting its dates in the same places. The equality is verified, not assumed: the
substitution must turn the first result into the second, letter for letter, with equal groups and
measures. Every date of the text must be in the WHERE, so that nothing else can depend on it, and no
group may use a column that a date limits, as its domain depends on the date.
"""

from __future__ import annotations

import datetime as dt
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from sparseq.language.expression_tree import Term, day_of
from sparseq.language.types import Family
from sparseq.question.plan import Query
from sparseq.released.sql_over_noise import After

_DATE = re.compile(r"'(\d{4}-\d{2}-\d{2}(?: \d{2}:\d{2}:\d{2})?)'")
_COLUMN = re.compile(r'(?:"(?:[^"]|"")+"\.)?"(?:[^"]|"")+"')
_PATTERNED = re.compile(r"\bto_(date|timestamp)\b", re.IGNORECASE)
_MIDNIGHT = " 00:00:00"
_TEMPLATES = 256
_Key = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class _Shape:
    """A lowered query whose dates can be replaced, once a second query confirms it."""

    query: Query
    dates: tuple[str, ...]
    confirmed: bool


class Templates:
    """The recent shapes."""

    def __init__(self) -> None:
        self._shapes: OrderedDict[_Key, _Shape] = OrderedDict()

    def lowered(self, text: str) -> Query | None:
        """Return the query lowered from `text`, if its shape is known."""
        dates = _DATE.findall(text)
        shape = self._shapes.get(_key(text)) if dates else None
        if shape is None or not shape.confirmed or not all(map(_is_date, dates)):
            return None
        return _with_dates(shape, text, dates)

    def learn(self, text: str, query: Query) -> None:
        """Remember a query that was lowered from `text`."""
        dates = _DATE.findall(text)
        if not dates or not all(map(_is_date, dates)) or _dated_groups(query):
            return
        if _PATTERNED.search(text):  # a date in a pattern may mean something else
            return
        moments = sorted(map(_moment, dates))
        if len(set(moments)) != len(dates) or moments != _moments_of(query):
            return
        key = _key(text)
        known = self._shapes.get(key)
        if known is not None and not known.confirmed and not set(dates) & set(known.dates):
            same = _with_dates(known, text, dates)
            same = replace(same, outputs=query.outputs)  # it holds no date: all are in the WHERE
            self._shapes[key] = replace(known, confirmed=same == query)
        elif known is None:
            self._shapes[key] = _Shape(query, tuple(dates), confirmed=False)
            if len(self._shapes) > _TEMPLATES:
                self._shapes.popitem(last=False)


def _key(text: str) -> _Key:
    """Return the key that queries of one shape share: the text between dates, and each date's kind.

    Midnights are a separate kind: compared with a date, a midnight becomes a date.
    """
    parts = _DATE.split(text)
    kinds = [len(date) + date.endswith(_MIDNIGHT) for date in [*parts[1::2], ""]]
    return tuple(zip(parts[::2], kinds, strict=True))


def _is_date(text: str) -> bool:
    try:
        dt.datetime.fromisoformat(text)
    except ValueError:
        return False
    return text >= "0001"


def _moment(date: str) -> str:
    return date if len(date) > 10 else date + _MIDNIGHT


def _moments_of(query: Query) -> list[str]:
    return sorted(map(_moment, _DATE.findall(query.relation.where)))


def _dated_groups(query: Query) -> bool:
    """Tell whether the groups may depend on a date of the WHERE.

    A key may use a column that a date limits, or the WHERE may exclude some of the groups.
    """
    if not query.domains:
        return False
    outputs = query.outputs
    of = outputs.parts if isinstance(outputs, After) else ()
    if any(one.possible for one in ([part.outputs for part in of] or [outputs])):
        return True
    keys = " ".join([query.relation.sql, *(d.position.sql for d in query.domains)])
    parts = [p for p in query.relation.where.split(") AND (") if _DATE.search(p)]
    return not set(_COLUMN.findall(keys)).isdisjoint(_COLUMN.findall(" ".join(parts)))


def _with_dates(shape: _Shape, text: str, dates: list[str]) -> Query:
    """Return the shape's query with other dates, all replaced in one pass."""
    others = dict(zip(map(_moment, shape.dates), map(_moment, dates), strict=True))

    def other(found: re.Match[str]) -> str:
        moment = others[_moment(found[1])]
        return f"'{moment if len(found[1]) > 10 else moment.removesuffix(_MIDNIGHT)}'"

    known = shape.query.relation
    conditions = tuple(_redate(c, lambda sql: _DATE.sub(other, sql)) for c in known.conditions)
    where = _DATE.sub(other, known.where)
    relation = replace(known, where=where, conditions=conditions)
    return replace(shape.query, text=text.strip(), relation=relation)


def _redate(term: Term, other: Callable[[str], str]) -> Term:
    """Return a term with other dates, which are replaced in its SQL and its values."""
    arguments = tuple(_redate(a, other) for a in term.arguments)
    sql = other(term.sql)
    if sql == term.sql or not term.is_written or term.value is None:
        return replace(term, sql=sql, arguments=arguments)
    if not term.type.is_time:
        return replace(term, sql=sql, value=other(f"'{term.value}'")[1:-1])
    (date,) = _DATE.findall(sql)
    kind = dt.datetime if term.type.family is Family.TIMESTAMP else dt.date
    value = kind.fromisoformat(date)
    day = day_of(dt.date.fromisoformat(date[:10]))
    return replace(term, sql=sql, value=value, type=replace(term.type, low=day, high=day))
