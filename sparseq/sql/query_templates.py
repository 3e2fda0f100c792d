"""The lowering of a store's queries: those that differ in their dates only are lowered once."""

from __future__ import annotations

import datetime as dt
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from sparseq.language.expression_tree import Term, day_of
from sparseq.language.types import Family
from sparseq.sql.catalog import Catalog, KnownBounds
from sparseq.sql.plan import FirstAnswer, Query
from sparseq.sql.public_database import PublicFacts
from sparseq.sql.select import lower_sql

_DATE = re.compile(r"'(\d{4}-\d{2}-\d{2}(?: \d{2}:\d{2}:\d{2})?)'")
_COLUMN = re.compile(r'(?:"(?:[^"]|"")+"\.)?"(?:[^"]|"")+"')
_PATTERNED = re.compile(r"\bto_(date|timestamp)\b", re.IGNORECASE)
_MIDNIGHT = " 00:00:00"
_TEMPLATES = 256
_Key = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class _Shape:
    """A lowered query whose dates can be changed, once it is confirmed by a second one."""

    query: Query
    dates: tuple[str, ...]
    confirmed: bool


class Templates:
    """The shapes seen lately."""

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
        if _PATTERNED.search(text):  # a date that is not read as it looks
            return
        moments = sorted(map(_moment, dates))
        if len(set(moments)) != len(dates) or moments != _moments_of(query):
            return
        key = _key(text)
        known = self._shapes.get(key)
        if known is not None and not known.confirmed and not set(dates) & set(known.dates):
            same = _with_dates(known, text, dates)
            same = replace(same, outputs=query.outputs)  # holds no date: all are in the WHERE
            self._shapes[key] = replace(known, confirmed=same == query)
        elif known is None:
            self._shapes[key] = _Shape(query, tuple(dates), confirmed=False)
            if len(self._shapes) > _TEMPLATES:
                self._shapes.popitem(last=False)


def _key(text: str) -> _Key:
    """Return what queries of one shape share: the text between dates, and of what kind each is.

    A midnight is a kind of its own: compared with a date, it is one.
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
    """Tell whether a key may look at a column that a date of the WHERE limits."""
    if not query.domains:
        return False
    keys = " ".join([query.relation.sql, *(d.position.sql for d in query.domains)])
    parts = [p for p in query.relation.where.split(") AND (") if _DATE.search(p)]
    return not set(_COLUMN.findall(keys)).isdisjoint(_COLUMN.findall(" ".join(parts)))


def _with_dates(shape: _Shape, text: str, dates: list[str]) -> Query:
    """Return the shape's query with other dates, at once and each in its place."""
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
    """Return a term with other dates in it; they are where its SQL has them."""
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


# -- from the text of a query to the query ---------------------------------------------------------

_REMEMBERED = 1024  # queries
_Asked = tuple[str, tuple[FirstAnswer, ...]]
_NOW = re.compile(r"now\s*\(|current_timestamp", re.IGNORECASE)


class Lowering:
    """Lowers the queries of one store: public facts only, no data touched, nothing charged.

    Args:
        catalog, schema, rows, most, weighted, least_people, found_bounds: See `PublicFacts`.

    Attributes:
        public: The twin of the store without its private rows.
    """

    def __init__(
        self,
        catalog: Catalog,
        schema: str,
        rows: Mapping[str, pa.Table],
        most: Mapping[str, int],
        weighted: bool,
        least_people: int = 0,
        found_bounds: KnownBounds | None = None,
    ) -> None:
        self.public = PublicFacts(catalog, schema, rows, most, weighted, least_people, found_bounds)
        self._templates = Templates()
        self._known: dict[_Asked, Query] = {}  # what lowering reads changes with the day
        self._known_on = dt.date.today()

    def lower(self, sql: str, first: tuple[FirstAnswer, ...] = ()) -> Query:
        """Lower SQL: see `sparseq.store.store.Store.lower`.

        Args:
            sql: The text.
            first: The answers to the first of the questions that are asked before it.
        """
        if self._known_on != (today := dt.date.today()):  # CURRENT_DATE, today()
            self._known, self._known_on = {}, today
        known = self._known.get((sql, first)) or (None if first else self._templates.lowered(sql))
        if known is not None:
            return known
        before = self.public.subqueries
        query = lower_sql(sql, self.public.catalog, self.public, first)
        if (
            self.public.subqueries == before
            and not _NOW.search(sql)
            and not any(domain.rest for domain in query.domains)  # keys may look like dates
            and self.public.catalog.window is None  # whether it is about one, dates decide
            and query.unbounded is None
            and not first
            and not query.first
        ):  # their answers could change with the dates
            self._templates.learn(sql, query)
        if len(self._known) >= _REMEMBERED:
            self._known.pop(next(iter(self._known)))
        if query.unbounded is None and not _NOW.search(
            sql
        ):  # a query that asks for the time is another one each time
            self._known[sql, first] = query
        return query

    def close(self) -> None:
        """Let go of the twin."""
        self.public.close()
