"""An answer: noised values with error bars, and the public facts about them."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sparseq.accounting import comparison_bound, corollary_bound, simultaneous_bound
from sparseq.answers.answer_facts import Facts
from sparseq.answers.interval_words import AnswerInterval
from sparseq.base.arguments import needed_polars
from sparseq.base.defaults import BETA
from sparseq.base.errors import NoSuchKey, ParameterError, StoreError
from sparseq.base.whole_files import whole_file, writing
from sparseq.question.plan import FirstAnswer
from sparseq.released.result_columns import columns_of, keys_of, noised_of, shown_columns

if TYPE_CHECKING:
    import pandas
    import polars

    from sparseq.answers.answer_figures import Drawing
    from sparseq.answers.chart_kinds import Chart
    from sparseq.pictures.tables import Table

__all__ = ["Answer", "Facts"]
_METADATA = b"sparseq"


class Answer:
    """A released answer: one Arrow table, from which all other forms are made.

    Every library that reads Arrow accepts it: `polars.DataFrame(answer)`, `pyarrow.table(answer)`,
    `duckdb.sql("FROM answer")`. `answer[key]` is the row of a key, as a dict; iteration yields all
    rows. A notebook draws its intervals.

    Example:
        >>> import sparseq, pyarrow as pa
        >>> events = pa.table({"who": [1, 1, 2], "kind": ["a", "b", "a"]})
        >>> con = sparseq.create(None, {"t": events}, user="who", seed=1)
        >>> answer = con.sql(
        ...     "SELECT kind, count(*) AS n FROM t WHERE kind IN ('a', 'b') GROUP BY 1"
        ... )
        >>> answer.arrow().column_names
        ['kind', 'n', 'n_error', 'n_low', 'n_high']
        >>> [row["kind"] for row in answer], answer["a"]["kind"], len(answer)
        (['a', 'b'], 'a', 2)
    """

    def __init__(self, table: pa.Table, facts: Facts, columns: str | None = None) -> None:
        self._table = table  # with all intervals
        self._columns = columns
        self.facts = facts

    def showing(self, columns: str | None) -> Answer:
        """Return the answer with only the requested columns: see `Options.columns`.

        Drawings and lines of text still contain the intervals.
        """
        return Answer(self._table, self.facts, columns)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the answer by the Arrow PyCapsule interface, for any library that reads Arrow."""
        return self.arrow().__arrow_c_stream__(requested_schema)

    def arrow(self) -> pa.Table:
        """Return the answer as an Arrow table.

        Every noised column x comes with x_low and x_high, the interval for the value over all
        users, and x_error, the larger distance to them. In-or-out answers have only x_error.
        columns="plain" or "error" leaves out all or some of these. The question's own names take
        precedence: if it names a column x_low, the interval's is x_low_2. The metadata of each
        field contains its role and the column of its interval (`sparseq.released.result_columns`).
        """
        return shown_columns(self._table, self._columns)

    def pl(self) -> polars.DataFrame:
        """Return the answer as a Polars frame (`pip install 'sparseq[polars]'`).

        Raises:
            ParameterError: Polars is not installed.
        """
        frame: polars.DataFrame = needed_polars().from_arrow(self.arrow())
        return frame

    def df(self) -> pandas.DataFrame:
        """Return the answer as a pandas frame (`pip install 'sparseq[pandas]'`)."""
        return self.arrow().to_pandas()

    def rows(self) -> list[dict[str, Any]]:
        """Return the answer as plain rows."""
        rows: list[dict[str, Any]] = self.arrow().to_pylist()
        return rows

    def to_parquet(self, path: str | Path) -> None:
        """Write the answer to a Parquet file, which appears whole or not at all.

        Its facts are in the schema's metadata, under `sparseq`, as JSON.

        Raises:
            ParameterError: The file cannot be written.
        """
        import pyarrow.parquet as pq

        path = Path(path)
        with whole_file(path) as working, writing(path):
            pq.write_table(self.described(), working)

    def described(self) -> pa.Table:
        """Return the Arrow table with the answer's facts in its schema's metadata, as JSON."""
        return self.arrow().replace_schema_metadata({_METADATA: json.dumps(asdict(self.facts))})

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows())

    def __getitem__(self, key: Any) -> dict[str, Any]:
        """Return the row of a key, or of a tuple of keys: `answer["gift", "1997-03-01"]`.

        Dates and times may be given as texts; the last of several keys may be left out.

        Raises:
            NoSuchKey: No row has the key, or several rows have it; a KeyError.
        """
        keys = keys_of(self._table)
        asked = key if isinstance(key, tuple) else (key,)
        if not keys:
            raise NoSuchKey("the answer has no keys", "use .value() or .rows()")
        if len(asked) > len(keys):
            raise NoSuchKey(f"{len(asked)} keys are given", f"the answer's are {', '.join(keys)}")
        columns = (self._table[name].to_pylist() for name in keys[: len(asked)])
        found = [
            i
            for i, row in enumerate(zip(*columns, strict=True))
            if all(_is_key(value, one) for value, one in zip(row, asked, strict=True))
        ]
        if len(found) != 1:
            said = "no row has" if not found else f"{len(found):,} rows have"
            raise NoSuchKey(f"{said} the key {key!r}", f"the answer's keys are {', '.join(keys)}")
        row: dict[str, Any] = self.arrow().slice(found[0], 1).to_pylist()[0]
        return row

    def plot(self, title: str = "", chart: Chart | None = None) -> Drawing:
        """Return a drawing with all intervals: the chart that suits the answer (docs/charts.md).

        A notebook or a prompt displays it; `.save("buyers.html")` writes a page or an image.

        Args:
            title: The title; "": the measured columns, and the keys.
            chart: "lines" or "bars"; None: lines if there is a key of dates, times or numbers.

        Raises:
            ParameterError: The answer has no row; or lines were requested without a key of dates,
                times or numbers.

        Example:
            >>> import sparseq, pyarrow as pa
            >>> rows = pa.table({"who": range(900), "kind": ["a", "a", "b"] * 300})
            >>> con = sparseq.create(None, {"t": rows}, user="who", keys={"kind": ["a", "b"]})
            >>> con.sql("SELECT kind, count(*) AS n FROM t GROUP BY kind").plot().figure.title
            'n by kind'
        """
        from sparseq.answers.answer_figures import Drawing

        return Drawing.of(self._table, self.facts, title, chart)

    def value(self) -> float:
        """Return the number of an answer with a single number.

        Raises:
            ParameterError: The answer has more rows or columns.
        """
        columns = self.values
        if self._table.num_rows != 1 or len(columns) != 1:
            raise ParameterError("the answer is not one number", "use .arrow(), .pl() or .rows()")
        number: float = self._table[columns[0]][0].as_py()
        return number

    @property
    def values(self) -> list[str]:
        """The names of the columns, without those of intervals."""
        return columns_of(self._table)

    @property
    def interval(self) -> AnswerInterval:
        """The basis of its intervals: `.kind`, `.confidence`, and a line of words.

        Example:
            >>> import sparseq, pyarrow as pa
            >>> con = sparseq.create(None, {"t": pa.table({"who": [1, 2]})}, user="who", seed=1)
            >>> con.sql("SELECT count(DISTINCT who) AS n FROM t").interval.kind
            'exact'
        """
        from sparseq.answers.answer_texts import interval_of

        return interval_of(self._table, self.facts)

    @property
    def sigma(self) -> float | tuple[float, ...]:
        """Standard deviation of the noise; one per measure if there are several."""
        return _only(self.facts.sigma)

    def bound(self, beta: float = BETA) -> float | tuple[float, ...]:
        """Return the ± that holds for all coordinates together with probability 1 - beta.

        It is the exact simultaneous quantile plus half a lattice step, one per measure. It covers
        the users who took part: users who were left out are not in the sum (see docs/bounds.md).
        """
        return self._bounds(simultaneous_bound, beta)

    def corollary_bound(self, beta: float = BETA) -> float | tuple[float, ...]:
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
        table = self.described()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        data: bytes = sink.getvalue().to_pybytes()
        return data

    @classmethod
    def from_bytes(cls, data: bytes) -> Answer:
        """Return the answer from the bytes of `to_bytes`.

        Raises:
            StoreError: The bytes do not contain an answer.
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

    def texts(self) -> Table:
        """Return the answer as texts, each value with the shown part of its interval."""
        from sparseq.answers.answer_texts import answer_table

        return answer_table(self._table, self._columns)

    def __repr__(self) -> str:
        from sparseq.answers.answer_texts import terminal_text

        width = shutil.get_terminal_size((100, 24)).columns
        return terminal_text(self._table, self.facts, width, self._columns)

    def _repr_html_(self) -> str:
        from sparseq.answers.answer_figures import html_table

        return html_table(self._table, self.facts)


def first_row(table: pa.Table, release: int) -> FirstAnswer:
    """Return the first row of an answer, for the question that needs it; NULLs without a row."""
    from sparseq.answers.answer_texts import answer_table

    names, noisy = columns_of(table), noised_of(table)
    row: dict[str, Any] = next(iter(table.slice(0, 1).to_pylist()), dict.fromkeys(names))
    noised = [name in noisy for name in names]
    values = (
        float(row[name]) if of_noise and row[name] is not None else row[name]
        for name, of_noise in zip(names, noised, strict=True)
    )
    texts = next(iter(answer_table(table).rows), ["NULL"] * len(names))
    of = [text if len(names) == 1 else f"{n} {text}" for n, text in zip(names, texts, strict=True)]
    return FirstAnswer(tuple(values), f"{', '.join(of)} (release {release})")


def _is_key(value: Any, asked: Any) -> bool:
    """Tell whether a key equals the requested one; a date or a time may be given as text."""
    if not isinstance(value, dt.date):
        return bool(value == asked) if value is not None else asked is None
    try:
        asked = dt.datetime.fromisoformat(asked) if isinstance(asked, str) else asked
    except ValueError:
        return False
    return isinstance(asked, dt.date) and _moment(value, asked) == _moment(asked, value)


def _moment(day: dt.date, other: dt.date) -> dt.datetime:
    """Return a day as its midnight; with a time zone only if the other value has one."""
    moment = day if isinstance(day, dt.datetime) else dt.datetime.combine(day, dt.time.min)
    aware = isinstance(other, dt.datetime) and other.tzinfo is not None
    return moment if aware else moment.replace(tzinfo=None)


def _only(numbers: tuple[float, ...]) -> float | tuple[float, ...]:
    return numbers[0] if len(numbers) == 1 else numbers
