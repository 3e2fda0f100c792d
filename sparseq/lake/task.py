"""A task: bytes in, bytes out, a function of its input alone.

It reads one bucket, writes nothing, and knows no budget and no noise. So a task that is repeated
gives the same integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.base.errors import SparseqError, StoreError
from sparseq.engine.weighted_reduction import Weights
from sparseq.lake._duckdb.bucket import Bucket, bucket_at
from sparseq.lake.task_messages import pack_frame, plan_of, unpack_frame

Arrays = list[NDArray[Any]]


def told(task: bytes) -> bytes:
    """Run one task; return its result after ".", or the reason of its failure after "!".

    The text of an unknown error may contain a row's values: only its type is returned.
    """
    try:
        return b"." + done(task)
    except SparseqError as error:
        return b"!" + error.message.encode()
    except Exception as error:
        return b"!" + type(error).__name__.encode()


def answer_of(said: bytes) -> bytes:
    """Return the result of a task, from the bytes that `told` has returned.

    Raises:
        StoreError: The task failed.
    """
    if said[:1] != b".":
        raise StoreError(f"a task failed: {said[1:].decode()}")
    return said[1:]


def done(task: bytes) -> bytes:
    """Run one task; return its result.

    Raises:
        StoreError: The driver has another version, or sends an unknown task.
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
    """Return sums over some users, one array per measure."""
    (only,) = arrays
    (plan,) = map(plan_of, head["plans"])
    return bucket.engine.contributions(plan, bucket.people).pull(only)


def _weigh(bucket: Bucket, head: dict[str, Any], arrays: Arrays) -> Arrays:
    """Return the amounts that weights subtract from the sums: the sums minus the weighted ones, on
    finer lattices.
    """
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
