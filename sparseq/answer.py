"""An answer: noised values with error bars, and everything public about how they were made."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sparseq.accounting import comparison_bound, corollary_bound, simultaneous_bound
from sparseq.errors import ParameterError, StoreError
from sparseq.query.render import ERROR_SUFFIX

if TYPE_CHECKING:
    import pandas
    import polars

_METADATA = b"sparseq"


@dataclass(frozen=True)
class Facts:
    """What is public about one answer; sigma, granularity, scale, labels, kinds: one a measure.

    Attributes:
        release: Its number in the store's history.
        request_id: The caller's id, if any.
        query: As asked.
        labels: What each measure is.
        kinds: What each adds up: "rows", "users" or "sum".
        sigma: Standard deviation of the noise, in the query's unit; of a sparse vector, the scale
            of its Laplace noise, which costs what a Gaussian of that sigma does.
        granularity: Lattice step, in the query's unit.
        scale: C.
        coordinates: d.
        confidence: Of every ±, for all values at once.
        kappa, norm_budget: Of the store.
        seeded: The noise came from a seed: the answer is not private.
        gaussian: Every mechanism of the store is a Gaussian (see `Budget`).
        comparisons: Of a sparse vector, the most that its run makes: every ± is of all of them.
            0: the answer is no sparse vector's.
        losses: How often the store has been opened although charges were missing (see
            `Store.losses`); the guarantee is for answers since the last time only.
    """

    release: int
    request_id: str | None
    query: str
    labels: tuple[str, ...]
    kinds: tuple[str, ...]
    sigma: tuple[float, ...]
    granularity: tuple[float, ...]
    scale: tuple[float, ...]
    coordinates: int
    confidence: float
    kappa: float
    norm_budget: float
    seeded: bool
    gaussian: bool = True
    comparisons: int = 0
    losses: int = 0

    @property
    def reach(self) -> tuple[float, ...]:
        """The most that a user can contribute to one value: more costs more than any budget.

        One a measure, in its unit. The price of x is (x sigma_0 / sigma)², and sigma_0² is
        norm_budget / (2 kappa), so x is at most mu · sigma (Feldman & Zrnic 2021, Corollary 4.7).
        """
        return tuple(math.sqrt(2 * self.kappa) * sigma for sigma in self.sigma)


class Answer:
    """A released answer.

    Example:
        >>> import sparseq, pyarrow as pa
        >>> con = sparseq.create(None, pa.table({"who": [1, 1, 2]}), table="t", user="who", seed=1)
        >>> answer = con.sql("SELECT count(*) AS n FROM t")
        >>> answer.arrow().column_names
        ['n', 'n_error']
    """

    def __init__(self, table: pa.Table, facts: Facts) -> None:
        self._table = table
        self.facts = facts

    def arrow(self) -> pa.Table:
        """Return the answer as an Arrow table: every noised column x has an x_error beside it."""
        return self._table

    def pl(self) -> polars.DataFrame:
        """Return the answer as a Polars frame."""
        import polars

        frame = polars.from_arrow(self._table)
        assert isinstance(frame, polars.DataFrame)
        return frame

    def df(self) -> pandas.DataFrame:
        """Return the answer as a pandas frame (`pip install 'sparseq[pandas]'`)."""
        return self._table.to_pandas()

    def rows(self) -> list[dict[str, Any]]:
        """Return the answer as plain rows."""
        rows: list[dict[str, Any]] = self._table.to_pylist()
        return rows

    def value(self) -> float:
        """Return the one number of a one-number answer.

        Raises:
            ParameterError: The answer has more rows or columns.
        """
        columns = [c for c in self._table.column_names if not c.endswith(ERROR_SUFFIX)]
        if self._table.num_rows != 1 or len(columns) != 1:
            raise ParameterError("the answer is not one number", "use .arrow(), .pl() or .rows()")
        number: float = self._table[columns[0]][0].as_py()
        return number

    @property
    def sigma(self) -> float | tuple[float, ...]:
        """Standard deviation of the noise; one a measure if there are several."""
        return _only(self.facts.sigma)

    def bound(self, beta: float = 0.05) -> float | tuple[float, ...]:
        """Return the ± that holds for every coordinate at once with probability 1 - beta.

        Exact simultaneous quantile plus half a lattice step; one a measure. It is about the users
        that took part: whoever was left out is not in the sum (see docs/bounds.md).
        """
        return self._bounds(simultaneous_bound, beta)

    def corollary_bound(self, beta: float = 0.05) -> float | tuple[float, ...]:
        """Return Corollary 4.7's bound, sigma · sqrt(2 ln(d/beta)) plus half a lattice step."""
        return self._bounds(corollary_bound, beta)

    def _bounds(self, f: Any, beta: float) -> float | tuple[float, ...]:
        d = self.facts.coordinates
        if self.facts.comparisons:
            return _only(
                tuple(comparison_bound(s, self.facts.comparisons, beta) for s in self.facts.sigma)
            )
        return _only(
            tuple(
                float(f(s, d, beta, lattice_step=g))
                for s, g in zip(self.facts.sigma, self.facts.granularity, strict=True)
            )
        )

    def to_bytes(self) -> bytes:
        """Return the answer with its facts as an Arrow IPC stream."""
        table = self._table.replace_schema_metadata({_METADATA: json.dumps(asdict(self.facts))})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        data: bytes = sink.getvalue().to_pybytes()
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> Answer:
        """Return the answer that `to_bytes` wrote.

        Raises:
            StoreError: The bytes are no answer.
        """
        try:
            table = pa.ipc.open_stream(data).read_all()
            facts = json.loads(table.schema.metadata[_METADATA])
        except (pa.ArrowException, KeyError, TypeError, ValueError):
            raise StoreError("the recorded answer can't be read", "restore a copy") from None
        fields: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in facts.items()
        }
        return cls(table.replace_schema_metadata(None), Facts(**fields))

    def __repr__(self) -> str:
        sigma = ", ".join(f"{s:.4g}" for s in self.facts.sigma)
        return f"<Answer {self.facts.release}: {self._table.num_rows} rows, sigma {sigma}>"


def _only(numbers: tuple[float, ...]) -> float | tuple[float, ...]:
    return numbers[0] if len(numbers) == 1 else numbers
