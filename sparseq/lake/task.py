"""A task: bytes in, bytes out, a function of its input alone.

It reads one bucket, writes nothing, and knows no budget and no noise. So one that is tried again,
or done twice, gives the same integers.

Messages between a driver and its tasks: plans and arrays, typed, versioned, without code.

A plan is written as a list of nodes, children first, so that what is shared is written once. Only
the classes below can be read, each by its fields; nothing that is read is ever run but the SQL that
lowering wrote, in a database that has no way out. Both sides must agree on all of it, and on the
programs that compute: a task of another `VERSION` is refused.
"""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import hashlib
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.accounting import Budget, Price
from sparseq.base.errors import SparseqError, StoreError
from sparseq.engine.contributions import Weights
from sparseq.lake._duckdb.layout import Bucket, bucket_at
from sparseq.language.expression_tree import Term
from sparseq.language.types import Family, Type
from sparseq.sql.plan import Cap, Cell, Domain, Kind, Measure, Noise, Plan, Query, Relation
from sparseq.version import __version__

# -- messages between a driver and its tasks -------------------------------------------------------

_CLASSES: dict[str, type[Any]] = {
    c.__name__: c for c in (Relation, Cap, Domain, Cell, Measure, Term, Type)
}
_ENUMS: dict[str, type[enum.Enum]] = {c.__name__: c for c in (Kind, Family)}
_TEXTS: dict[str, tuple[type[Any], Callable[[Any], str], Callable[[str], Any]]] = {
    "float": (float, float.hex, float.fromhex),
    "datetime": (dt.datetime, dt.datetime.isoformat, dt.datetime.fromisoformat),
    "date": (dt.date, dt.date.isoformat, dt.date.fromisoformat),
    "time": (dt.time, dt.time.isoformat, dt.time.fromisoformat),
    "decimal": (decimal.Decimal, str, decimal.Decimal),
    "uuid": (uuid.UUID, str, uuid.UUID),
}
VERSION = {
    "sparseq": __version__,
    "duckdb": version("duckdb"),
    "numpy": np.__version__,
    "plans": hashlib.sha256(
        repr([(name, [f.name for f in fields(c)]) for name, c in _CLASSES.items()]).encode()
    ).hexdigest()[:16],
}
"""Versions that may decide a task's integers. Whoever has another is refused."""
_FREE = Price.of(1.0, 1.0, Budget(0.5, 1.0))  # tasks price nothing


def plan_document(plan: Plan) -> dict[str, Any]:
    """Return what a task needs of a plan, as plain data: no text of the query, and no noise.

    Example:
        >>> from sparseq.sql.plan import Relation
        >>> count = Measure(Kind.ROWS, None, "rows")
        >>> query = Query("SELECT …", Relation("FROM by_user.t", stored="t"), (), (count,), None)
        >>> plan = Plan(query, (Noise(4.0, 0.5, 1.0, 0.5, _FREE),), 0.05)
        >>> again = plan_of(plan_document(plan))
        >>> again.query.relation == query.relation, again.noise[0].granularity
        (True, 0.5)
    """
    nodes = _Nodes()
    q = plan.query
    root = nodes.written(
        (q.relation, q.domains, q.measures, tuple(n.granularity for n in plan.noise))
    )
    return {"nodes": nodes.list, "root": root}


def plan_of(document: Mapping[str, Any]) -> Plan:
    """Return a plan that gives the same contributions.

    Raises:
        StoreError: The document was not written by `plan_document`.
    """
    made: list[Any] = []
    try:
        for name, values in document["nodes"]:
            made.append(_CLASSES[name](*(_read(value, made) for value in values)))
        relation, domains, measures, steps = _read(document["root"], made)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise StoreError(f"this is no plan: {error}") from None
    noise = tuple(Noise(1.0, step, 1.0, step, _FREE) for step in steps)
    return Plan(Query("", relation, domains, measures, None), noise, 0.5)


class _Nodes:
    """Objects on their way into a document, each once."""

    def __init__(self) -> None:
        self.list: list[Any] = []
        self._places: dict[int, int] = {}
        self._held: list[Any] = []  # an id is an object's as long as it lives

    def written(self, value: Any) -> Any:
        """Return a value as plain data."""
        if value is None or (isinstance(value, (bool, str)) and not isinstance(value, enum.Enum)):
            return value
        if isinstance(value, enum.Enum):
            return {"enum": [type(value).__name__, value.value]}
        if isinstance(value, int):
            return value
        if isinstance(value, (tuple, list)):
            return [self.written(one) for one in value]
        for name, (kind, write, _) in _TEXTS.items():
            if isinstance(value, kind):
                return {name: write(value)}
        if is_dataclass(value) and type(value).__name__ in _CLASSES:
            return {"node": self._place(value)}
        raise TypeError(f"{type(value).__name__} is not sent to tasks")

    def _place(self, value: Any) -> int:
        if id(value) not in self._places:
            parts = [self.written(getattr(value, field.name)) for field in fields(value)]
            self._places[id(value)] = len(self.list)
            self._held.append(value)
            self.list.append([type(value).__name__, parts])
        return self._places[id(value)]


def _read(value: Any, made: Sequence[Any]) -> Any:
    if isinstance(value, list):
        return tuple(_read(one, made) for one in value)
    if not isinstance(value, dict):
        return value
    ((name, inner),) = value.items()
    if name == "node":
        return made[inner]
    if name == "enum":
        return _ENUMS[inner[0]](inner[1])
    return _TEXTS[name][2](inner)


def pack_frame(head: Mapping[str, Any], arrays: Sequence[NDArray[Any]] = ()) -> bytes:
    """Return plain data and one-dimensional arrays as bytes.

    Example:
        >>> head, (numbers,) = unpack_frame(pack_frame({"do": "add"}, [np.array([1, 2])]))
        >>> head, numbers.tolist()
        ({'do': 'add'}, [1, 2])
    """
    kinds = [[array.dtype.str, len(array)] for array in arrays]
    text = json.dumps({"version": VERSION, "head": head, "arrays": kinds}).encode()
    parts = [len(text).to_bytes(8, "little"), text, *(a.tobytes() for a in arrays)]
    return b"".join(parts)


def unpack_frame(data: bytes) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """Return what `pack_frame` was given.

    Raises:
        StoreError: It is of another version, or cut short.
    """
    size = int.from_bytes(data[:8], "little")
    said = json.loads(data[8 : 8 + size])
    if said["version"] != VERSION:
        pairs = [f"{k} {v} and {VERSION[k]}" for k, v in said["version"].items() if v != VERSION[k]]
        raise StoreError(
            f"the driver and its tasks differ: {', '.join(pairs)}",
            "install the same versions on all machines",
        )
    arrays, at = [], 8 + size
    for kind, length in said["arrays"]:
        array = np.frombuffer(data, np.dtype(kind), length, at)
        arrays.append(array)
        at += array.nbytes
    if at != len(data):
        raise StoreError("a message between the driver and its tasks was cut short")
    return said["head"], arrays


# -- a task: bytes in, bytes out, a function of its input alone ------------------------------------

Arrays = list[NDArray[Any]]


def told(task: bytes) -> bytes:
    """Do one task; return what came of it after ".", or after "!" why nothing did.

    An error that we have not written may have a row's values: its kind alone is told.
    """
    try:
        return b"." + done(task)
    except SparseqError as error:
        return b"!" + error.message.encode()
    except Exception as error:
        return b"!" + type(error).__name__.encode()


def answer_of(said: bytes) -> bytes:
    """Return what came of a task, of what `told` has returned.

    Raises:
        StoreError: Nothing did.
    """
    if said[:1] != b".":
        raise StoreError(f"a task failed: {said[1:].decode()}")
    return said[1:]


def done(task: bytes) -> bytes:
    """Do one task; return what came of it.

    Raises:
        StoreError: The driver is of another version, or asks for what no task does.
    """
    head, arrays = unpack_frame(task)
    bucket = bucket_at(head["bucket"])
    if head["do"] not in _KINDS:
        raise StoreError(f"no task does {head['do']!r}")
    with bucket.lock:
        bucket.engine.take_failures()  # of a task that was stopped
        found = _KINDS[head["do"]](bucket, head, arrays)
        failures = [[f.user, f.error] for f in bucket.engine.take_failures()]
    return pack_frame({"place": head["place"], "failures": failures}, found)


def _measures(bucket: Bucket, head: dict[str, Any], _: Arrays) -> Arrays:
    """Return users, norms and totals of every measure of every plan."""
    plans = [plan_of(document) for document in head["plans"]]
    if len(plans) > 1:
        bucket.engine.read_ahead(plans)
    found: Arrays = []
    for plan in plans:
        for m in bucket.engine.contributions(plan, bucket.people).measures:
            found += [m.users, m.norms, m.totals]
    return found


def _pull(bucket: Bucket, head: dict[str, Any], arrays: Arrays) -> Arrays:
    """Return sums over some people, one array a measure."""
    (only,) = arrays
    (plan,) = map(plan_of, head["plans"])
    return bucket.engine.contributions(plan, bucket.people).pull(only)


def _weigh(bucket: Bucket, head: dict[str, Any], arrays: Arrays) -> Arrays:
    """Return what weights take from the sums: they less the weighted ones, on finer lattices."""
    users, mantissa, exponent = arrays
    (plan,) = map(plan_of, head["plans"])
    made = bucket.engine.contributions(plan, bucket.people)
    weights = Weights(users, mantissa, exponent, tuple(head["shifts"]))
    whole = [m.totals << shift for m, shift in zip(made.measures, weights.shifts, strict=True)]
    weighted = made.weighted(weights)
    return [all_ - less for all_, less in zip(whole, weighted, strict=True)]


def _cells(bucket: Bucket, head: dict[str, Any], _: Arrays) -> Arrays:
    """Return users, coordinates and values of a plan's cells."""
    (plan,) = map(plan_of, head["plans"])
    cells = bucket.engine.cells(plan, bucket.people)
    return [cells.users, cells.coordinates, cells.values]


def _rows(bucket: Bucket, head: dict[str, Any], _: Arrays) -> Arrays:
    """Return columns of a table as one Arrow stream."""
    rows = bucket.rows(head["table"], head["columns"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return [np.frombuffer(sink.getvalue(), np.uint8)]


_KINDS = {
    "measures": _measures,
    "pull": _pull,
    "weigh": _weigh,
    "cells": _cells,
    "rows": _rows,
}
