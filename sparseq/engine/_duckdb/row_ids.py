"""Row identifiers of a stored table, which verify that columns from different reads have one order.

DuckDB's `rowid` is the place of a stored row; it does not change until the table is rewritten.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


class OrderError(Exception):
    """The order or the number of rows differs from an earlier read."""


@dataclass(frozen=True)
class RowIds:
    """Row identifiers, ascending.

    Attributes:
        first, count: The least identifier, and the number of identifiers.
        all: All identifiers; None: they are consecutive.
    """

    first: int
    count: int
    all: NDArray[np.int64] | None

    @classmethod
    def of(cls, read: pa.ChunkedArray) -> RowIds:
        """Return row identifiers from a read.

        Raises:
            OrderError: They do not ascend.
        """
        ids = read.to_numpy()
        if bool(np.any(ids[1:] <= ids[:-1])):
            raise OrderError
        first, last = (int(ids[0]), int(ids[-1])) if len(ids) else (0, -1)
        return cls(first, len(ids), None if last - first + 1 == len(ids) else ids)

    def compare(self, read: pa.ChunkedArray) -> None:
        """Compare identifiers of a later read with these.

        Raises:
            OrderError: They differ.
        """
        at = 0
        for chunk in read.chunks:
            ids, end = chunk.to_numpy(), at + len(chunk)
            known = np.arange(at, end) + self.first if self.all is None else self.all[at:end]
            if not np.array_equal(ids, known):
                raise OrderError
            at = end
        if at != self.count:
            raise OrderError

    def places(self, read: pa.ChunkedArray, some: bool = False) -> NDArray[np.int64]:
        """Return the places of identifiers: these identifiers, each once, in any order.

        Args:
            read: The identifiers.
            some: Some of these identifiers may be missing.

        Raises:
            OrderError: There is another identifier, or one occurs twice, or is missing.
        """
        ids: NDArray[np.int64] = read.to_numpy()
        taken = np.zeros(self.count, np.bool_)
        places = ids - self.first
        if self.all is not None:
            places = np.searchsorted(self.all, ids).astype(np.int64)
        if bool(np.any((places < 0) | (places >= self.count))):
            raise OrderError
        taken[places] = True
        expected = len(ids) if some else self.count
        if (
            len(ids) != expected
            or np.count_nonzero(taken) != expected
            or (self.all is not None and bool(np.any(self.all[places] != ids)))
        ):
            raise OrderError
        return places

    @property
    def nbytes(self) -> int:
        """Number of bytes in use."""
        return 0 if self.all is None else self.all.nbytes
