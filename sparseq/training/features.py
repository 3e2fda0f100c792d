"""Features from columns of a store, by public facts alone: declared bounds, declared keys.

    age      a number with declared bounds, scaled to [-1, 1]; a value outside goes to the edge
    age/8    the same number, in 8 equal ranges between its bounds: 8 features of 0 or 1
    sex      a column with declared keys: a feature of 0 or 1 for each key
    late     a boolean: 0 or 1

A missing value, and a value that is not a declared key, has 0 in all its features. The number of
features and their meaning are public and never depend on a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sparseq.base.errors import DataError, ParameterError, QueryRefused
from sparseq.engine.contribution_tables import as_arrow
from sparseq.question.catalog import Column, Table
from sparseq.training.protocol import Floats

NUMBERS = ("FLOAT", "DOUBLE", "DECIMAL")
MAX_RANGES = 1000


@dataclass(frozen=True)
class Feature:
    """One column as features.

    Attributes:
        column: Name of the column.
        bounds: Bounds of a number.
        ranges: Number of equal ranges of a number; 0: the number itself.
        keys: Public values of a column with keys.
    """

    column: str
    bounds: tuple[float, float] | None = None
    ranges: int = 0
    keys: tuple[Any, ...] | None = None

    @property
    def names(self) -> list[str]:
        """The name of each feature."""
        if self.keys is not None:
            return [f"{self.column}={key}" for key in self.keys]
        if self.ranges and self.bounds is not None:
            edges = np.linspace(*self.bounds, self.ranges + 1)
            pairs = zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
            return [f"{self.column} {a:g}..{b:g}" for a, b in pairs]
        return [self.column]

    def encode(self, values: pa.Array) -> Floats:
        """Return (rows, features): numbers in [-1, 1].

        Example:
            >>> Feature("age", (0.0, 100.0)).encode(pa.array([0, 75, None, 300])).tolist()
            [[-1.0], [0.5], [0.0], [1.0]]
            >>> Feature("sex", keys=("f", "m")).encode(pa.array(["m", None])).tolist()
            [[0.0, 1.0], [0.0, 0.0]]
        """
        if self.keys is not None:
            return _one_hot(_position(values, self.keys), len(self.keys))
        numbers = _numbers(values)
        if self.bounds is None:
            return np.nan_to_num(numbers, nan=0.0)[:, None]
        low, high = self.bounds
        share = (np.clip(numbers, low, high) - low) / (high - low)
        if self.ranges:
            place = np.where(np.isnan(share), -1, np.floor(share * self.ranges))
            return _one_hot(np.minimum(place, self.ranges - 1), self.ranges)
        return np.nan_to_num(2 * share - 1, nan=0.0)[:, None]


@dataclass(frozen=True)
class Target:
    """The target to predict.

    Attributes:
        column: Name of the column.
        value: The target is whether the column has this value; None: the column itself.
        keys: Classes of a softmax model.
        bounds: Bounds of a number that is scaled to [-1, 1].
    """

    column: str
    value: Any = None
    keys: tuple[Any, ...] | None = None
    bounds: tuple[float, float] | None = None

    def encode(self, values: pa.Array) -> Floats:
        """Return (rows,): numbers, 0 or 1, or classes from 0; NaN for a missing target."""
        if self.keys is not None:
            place = _position(values, self.keys).astype(np.float64)
            return np.where(place < 0, np.nan, place)
        if self.value is not None:
            known = ~np.asarray(values.is_null())
            same = _position(values, (self.value,)) == 0
            return np.where(known, same.astype(np.float64), np.nan)
        numbers = _numbers(values)
        if self.bounds is None:
            return numbers
        middle, half = self.scaling
        return np.asarray((np.clip(numbers, *self.bounds) - middle) / half)

    @property
    def scaling(self) -> tuple[float, float]:
        """Middle and half-width of the bounds: 0 and 1 without bounds."""
        low, high = self.bounds or (-1.0, 1.0)
        return (low + high) / 2, (high - low) / 2


def features_of(table: Table, asked: Iterable[str], target: str) -> tuple[Feature, ...]:
    """Return the requested features, given by name or `name/ranges`.

    Raises:
        QueryRefused: There is no such column, or no public fact limits its values.
        ParameterError: A feature is named twice, or its form is not known.
    """
    found: list[Feature] = []
    for text in asked:
        name, slash, ranges = text.strip().partition("/")
        if slash and not (ranges.isdigit() and 2 <= int(ranges) <= MAX_RANGES):
            raise ParameterError(
                f"{text!r}: the number of ranges is missing", f"{name}/8, for example"
            )
        feature = _feature(table, table.column(name), int(ranges or 0))
        if feature.column == target:
            raise ParameterError(f"{target} is the target; it can't also be a feature")
        if feature.column in [f.column for f in found]:
            raise ParameterError(f"{feature.column} is named twice")
        found.append(feature)
    if not found:
        raise ParameterError("there are no features", "--features age,sex")
    return tuple(found)


def _feature(table: Table, column: Column, ranges: int) -> Feature:
    if column.name == table.user:
        raise QueryRefused(f"{column.name} names the user of each row; it can't be a feature")
    if column.keys is not None and not ranges:
        return Feature(column.name, keys=column.keys)
    if column.type == "BOOLEAN" and not ranges:
        return Feature(column.name)
    if _is_number(column) and column.bounds is not None:
        return Feature(column.name, bounds=column.bounds, ranges=ranges)
    what = "bounds" if _is_number(column) else "keys"
    how = f"{column.name}=0..100" if what == "bounds" else f"{column.name}=a,b,c"
    raise QueryRefused(
        f"{column.name} can't be a feature: its values are not public",
        f"ask the curator to declare {what}: create --{what} {how}",
    )


def encoded(features: Sequence[Feature], table: Any) -> Floats:
    """Return (rows, inputs): the features' columns of a table, in the model's order.

    Args:
        features: In the model's order.
        table: An Arrow table, or an object that converts to one.

    Raises:
        DataError: A column is missing.
    """
    rows: pa.Table = as_arrow(table)
    missing = [f.column for f in features if f.column not in rows.column_names]
    if missing:
        raise DataError(f"the rows have no column {missing[0]!r}", "the model looks at it")
    return np.hstack([f.encode(rows[f.column].combine_chunks()) for f in features])


def target_of(table: Table, text: str, model: str) -> Target:
    """Return the requested target: `name`, or `name=value` for yes or no.

    For a network, `name` is a class if it has keys, yes or no if it is a boolean, and otherwise a
    number.

    Raises:
        QueryRefused: There is no such column, or it does not fit the model.
        ParameterError: The column can't have this value.
    """
    name, equals, value = text.partition("=")
    column = table.column(name.strip())
    if column.name == table.user:
        raise QueryRefused(f"{column.name} names the user of each row; it can't be the target")
    if equals:
        if model in ("linear", "softmax", "poisson"):
            raise ParameterError(f"{text!r} is yes or no; use --model logistic")
        return Target(column.name, value=_value(column, value.strip()))
    network = model not in ("logistic", "linear", "softmax", "poisson")
    if model == "softmax" or (network and column.keys is not None):
        if column.keys is None:
            raise QueryRefused(
                f"the classes of {column.name} are not public",
                f"ask the curator to declare keys: create --keys {table.id_of(column)}=a,b,c",
            )
        return Target(column.name, keys=column.keys)
    if network and column.type == "BOOLEAN":
        return Target(column.name, value=True)
    if not (_is_number(column) or column.type == "BOOLEAN"):
        raise QueryRefused(
            f"{column.name} is not a number", f"--target {column.name}=VALUE asks for yes or no"
        )
    return Target(column.name, bounds=column.bounds if model == "linear" or network else None)


def _value(column: Column, text: str) -> Any:
    """Return the value of a text: public, as the caller wrote it."""
    if column.keys is not None:
        for key in column.keys:
            if str(key) == text:
                return key
        raise ParameterError(
            f"{text!r} is not one of the keys of {column.name}",
            ", ".join(map(str, column.keys[:10])),
        )
    if not _is_number(column):
        return text
    try:
        return float(text)
    except ValueError:
        raise ParameterError(f"{text!r} is not a number, as {column.name} is") from None


def _is_number(column: Column) -> bool:
    return column.integral or column.type.startswith(NUMBERS)


def _position(values: pa.Array, keys: Sequence[Any]) -> NDArray[np.int64]:
    """Return each value's index in the keys, -1 for other values."""
    try:
        known = pa.array(list(keys), type=values.type)
    except (pa.ArrowException, TypeError, ValueError):
        values, known = values.cast(pa.string()), pa.array([str(k) for k in keys], pa.string())
    places = pc.index_in(values, value_set=known)
    return np.asarray(places.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)


def _numbers(values: pa.Array) -> Floats:
    numbers = values.cast(pa.float64(), safe=False)
    return np.asarray(numbers.to_numpy(zero_copy_only=False), np.float64)


def _one_hot(places: NDArray[Any], size: int) -> Floats:
    return np.asarray(places[:, None] == np.arange(size), np.float64)
