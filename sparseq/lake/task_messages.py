"""Messages between a driver and its tasks: plans and arrays, typed, versioned, without code.

A plan is written as a list of nodes, children first, so shared nodes are written once. Only the
classes below can be read, each by its fields. Nothing in a message is executed, except the SQL that
lowering wrote, in a database without access to the outside. Both sides must agree on the classes
and on the programs that compute: a task of another `VERSION` is refused.
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
from numpy.typing import NDArray

from sparseq.accounting import Budget, Price
from sparseq.base.errors import StoreError
from sparseq.language.column_id import ColumnId
from sparseq.language.expression_tree import Nulls, Term
from sparseq.language.types import Family, Type
from sparseq.question.plan import Cap, Cell, Domain, Kind, Measure, Noise, Plan, Query, Relation
from sparseq.version import __version__

_CLASSES: dict[str, type[Any]] = {
    c.__name__: c for c in (Relation, Cap, Domain, Cell, Measure, Term, Type, ColumnId)
}
_ENUMS: dict[str, type[enum.Enum]] = {c.__name__: c for c in (Kind, Family, Nulls)}
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
"""Versions that may affect a task's integers. Other versions are refused."""
_FREE = Price.of(1.0, 1.0, Budget(0.5, 1.0))  # tasks have no prices


def plan_document(plan: Plan) -> dict[str, Any]:
    """Return the parts of a plan that a task needs, as plain data: no text of the query, and no
    noise.

    Example:
        >>> from sparseq.question.plan import Relation
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
    """Return a plan with the same contributions.

    Raises:
        StoreError: The document was not written by `plan_document`.
    """
    made: list[Any] = []
    try:
        for name, values in document["nodes"]:
            made.append(_CLASSES[name](*(_read(value, made) for value in values)))
        relation, domains, measures, steps = _read(document["root"], made)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise StoreError(f"this is not a plan: {error}") from None
    noise = tuple(Noise(1.0, step, 1.0, step, _FREE) for step in steps)
    return Plan(Query("", relation, domains, measures, None), noise, 0.5)


class _Nodes:
    """Objects on their way into a document, each once."""

    def __init__(self) -> None:
        self.list: list[Any] = []
        self._places: dict[int, int] = {}
        self._held: list[Any] = []  # an id is unique only as long as the object lives

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
        raise TypeError(f"{type(value).__name__} can't be sent to tasks")

    def _place(self, value: Any) -> int:
        if id(value) not in self._places:
            parts = [
                self.written(getattr(value, field.name) if field.compare else None)
                for field in fields(value)  # a field that no comparison sees is used while lowering
            ]
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
    """Return the data and arrays from which `pack_frame` made the bytes.

    Raises:
        StoreError: They are of another version, or cut short.
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
