"""A gradient engine over a store's own rows, read as Arrow record batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

from sparseq.engine.protocol import USER
from sparseq.question.catalog import Table
from sparseq.store.store import Store
from sparseq.training.closed_form import ClosedForm
from sparseq.training.features import Feature, Target
from sparseq.training.model_families import family

SPARSE_FROM = 256
"""Number of features from which rows are kept as CSR."""


def engine_for(
    store: Store, table: Table, features: Sequence[Feature], target: Target, model: str
) -> ClosedForm:
    """Return a closed-form engine over a store's private table.

    Args:
        store: Store with the rows.
        table: Table of its catalogue.
        features, target: Public facts of their encoding.
        model: logistic, linear, softmax or poisson.

    Raises:
        ParameterError: There is no such model.
    """
    users, x, y = rows_of(store, table, features, target)
    classes = len(target.keys) if target.keys is not None else 2
    return ClosedForm(family(model, classes), users, x, y, bound=1.0)


def rows_of(
    store: Store, table: Table, features: Sequence[Feature], target: Target
) -> tuple[Any, Any, Any]:
    """Return users, features (rows, width) and targets of a private table, in order of user."""
    columns = [*dict.fromkeys([*(f.column for f in features), target.column])]

    def blocks_of(batches: Iterable[pa.RecordBatch]) -> list[tuple[Any, Any, Any]]:
        return [encoded_batch(batch, features, target) for batch in batches]

    with store.stream.held():
        parts = store.stream.engine.by_people(
            table, columns, blocks_of, store.stream.people.inside()
        )
        blocks = [block for part in parts for block in part]
    users = np.concatenate([np.zeros(0, np.int32), *(users for users, _, _ in blocks)])
    y = np.concatenate([np.zeros(0), *(y for _, _, y in blocks)])
    width = sum(len(f.names) for f in features)
    if width >= SPARSE_FROM:
        empty = sparse.csr_array((0, width))
        return users, sparse.vstack([empty, *(block for _, block, _ in blocks)], format="csr"), y
    return users, np.concatenate([np.zeros((0, width)), *(block for _, block, _ in blocks)]), y


def encoded_batch(
    batch: pa.RecordBatch, features: Sequence[Feature], target: Target
) -> tuple[Any, Any, Any]:
    """Return users, features (rows, width) and targets of one record batch."""
    parts = [feature.encode(batch.column(feature.column)) for feature in features]
    x: Any = np.hstack(parts)
    if x.shape[1] >= SPARSE_FROM:
        x = sparse.csr_array(x)
    return batch.column(USER).to_numpy(), x, target.encode(batch.column(target.column))
