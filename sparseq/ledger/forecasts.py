"""What forecasts keep in the ledger: which releases are whose, and (private) who left what.

    forecast            one row a series: how it was begun; public
    forecast_release    which releases are a series' answers and rows, tick by tick; public
    forecast_counted    which revision of the rows (`Storage.revision`) is in forecast_seen; public
    forecast_seen       private: what every user of a series has contributed, tick by tick
    forecast_left       private: what departed users have left, counter by counter, one row a
                        coordinate, and the rate that it was made from
    forecast_part_time  private: the weights that users have announced; 0: has departed

Whatever changes here is written in the transaction of a release (`Journal.commit`), there is
neither without the other; or in one of a recount, of all ticks and of which revision they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sparseq.ledger.accounts import Index, Ints
from sparseq.ledger.journal import Statement

TABLES = """
CREATE TABLE IF NOT EXISTS ledger.forecast (series VARCHAR NOT NULL, settings VARCHAR NOT NULL);
CREATE TABLE IF NOT EXISTS ledger.forecast_release (
    series VARCHAR NOT NULL, tick BIGINT NOT NULL, is_row BOOLEAN NOT NULL,
    release BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS ledger.forecast_counted (
    series VARCHAR NOT NULL, revision BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS ledger.forecast_seen (
    series VARCHAR NOT NULL, tick BIGINT NOT NULL, _user INTEGER NOT NULL,
    coordinate INTEGER NOT NULL, value DOUBLE NOT NULL);
CREATE TABLE IF NOT EXISTS ledger.forecast_left (
    series VARCHAR NOT NULL, counter BIGINT NOT NULL, tick BIGINT NOT NULL,
    _user INTEGER NOT NULL, coordinate INTEGER NOT NULL, rate DOUBLE NOT NULL,
    steps BIGINT NOT NULL);
CREATE TABLE IF NOT EXISTS ledger.forecast_part_time (
    series VARCHAR NOT NULL, tick BIGINT NOT NULL, _user INTEGER NOT NULL,
    weight BIGINT NOT NULL);
"""
_HANDED = "forecast_handed"
Seen = tuple[int, Index, Index, NDArray[np.float64]]
"""A tick, and what users contributed to it: users, coordinates, values."""


def forget_forecasts(connection: duckdb.DuckDBPyConnection, users: Sequence[int]) -> None:
    """Erase what some users have contributed and left, in a transaction of the caller.

    They stay departed, with nothing left behind; and so are they from now on whose weights are less
    than full. The tables are written anew, since DuckDB only marks deleted rows.
    """
    connection.execute(TABLES)
    them = f"_user IN ({', '.join(map(str, users))})"
    nothing = f"REPLACE (if({them}, 0, rate) AS rate, if({them}, 0, steps) AS steps)"
    depart = f"REPLACE (if({them}, 0, weight) AS weight)"
    for table, select in (
        ("forecast_seen", f"* FROM ledger.forecast_seen WHERE NOT {them}"),
        ("forecast_part_time", f"* {depart} FROM ledger.forecast_part_time"),
        ("forecast_left", f"* {nothing} FROM ledger.forecast_left"),
    ):
        connection.execute(f"CREATE TABLE ledger.{table}_anew AS SELECT {select}")
        connection.execute(f"DROP TABLE ledger.{table}")
        connection.execute(f"ALTER TABLE ledger.{table}_anew RENAME TO {table}")


@dataclass(frozen=True)
class Left:
    """What departed users have left in one counter, a row a user and coordinate, users ascending.

    `ticks` are the counter's own, from 0; `rates` in the query's unit, `steps` on the lattice.
    """

    users: Index
    coordinates: Index
    ticks: Ints
    rates: NDArray[np.float64]
    steps: Ints

    @classmethod
    def nothing(cls) -> Left:
        """Return what is left before anybody has departed."""
        none = np.zeros(0, np.int64)
        return cls(none.astype(np.int32), none.astype(np.int32), none, none.astype(float), none)

    def joined(self, other: Left) -> Left:
        """Return both, by user and coordinate."""
        pairs = zip(self.__dict__.values(), other.__dict__.values(), strict=True)
        users, coordinates, ticks, rates, steps = (np.concatenate(p) for p in pairs)
        order = np.lexsort((coordinates, users))
        return Left(*(x[order] for x in (users, coordinates, ticks, rates, steps)))


class ForecastLedger:
    """The tables of one series, on the store's connection."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, series: str) -> None:
        self._con = connection
        self.series = series
        connection.execute(TABLES)

    def settings(self) -> dict[str, Any] | None:
        """Return how the series was begun, or None."""
        return self.all_settings().get(self.series)

    def all_settings(self) -> dict[str, dict[str, Any]]:
        """Return how every series was begun."""
        rows = self._con.execute("SELECT series, settings FROM ledger.forecast").fetchall()
        return {series: json.loads(settings) for series, settings in rows}

    def begin(self, settings: dict[str, Any]) -> Statement:
        """Return what remembers how the series is begun."""
        return "INSERT INTO ledger.forecast VALUES (?, ?)", [self.series, json.dumps(settings)]

    def releases(self, rows: bool) -> dict[int, int]:
        """Return the release of every tick: the answers, or the counter's rows."""
        found = self._con.execute(
            "SELECT tick, release FROM ledger.forecast_release WHERE series = ? AND is_row = ? "
            "ORDER BY tick",
            [self.series, rows],
        ).fetchall()
        return dict(found)

    def released(self, tick: int, is_row: bool, release: int) -> Statement:
        """Return what remembers which release a tick's answer or row is."""
        values = [self.series, tick, is_row, release]
        return "INSERT INTO ledger.forecast_release VALUES (?, ?, ?, ?)", values

    def seen(self, users: Index) -> tuple[Index, Ints, Index, NDArray[np.float64]]:
        """Return what `users` have contributed: user, tick, coordinate, value, in that order."""
        self._con.register(_HANDED, pa.table({"u": users}))
        try:
            table = self._con.sql(
                "SELECT _user, tick, coordinate, value FROM ledger.forecast_seen "
                f"WHERE series = ? AND _user IN (SELECT u FROM {_HANDED}) "
                "ORDER BY _user, coordinate, tick",
                params=[self.series],
            ).to_arrow_table()
        finally:
            self._con.unregister(_HANDED)
        user, tick, coordinate, value = (column.to_numpy() for column in table.columns)
        return user, tick, coordinate, value

    def left(self, counter: int) -> Left:
        """Return what departed users have left in a counter."""
        table = self._con.sql(
            "SELECT _user, coordinate, tick, rate, steps FROM ledger.forecast_left "
            "WHERE series = ? AND counter = ? ORDER BY _user, coordinate",
            params=[self.series, counter],
        ).to_arrow_table()
        return Left(*(column.to_numpy() for column in table.columns))

    def remember_seen(
        self, tick: int, users: Index, coordinates: Index, values: NDArray[np.float64]
    ) -> list[Statement]:
        """Return what writes a tick's contributions."""
        table = pa.table({"u": users, "k": coordinates, "v": values})
        return self._from(
            "forecast_seen_handed", table,
            "INSERT INTO ledger.forecast_seen SELECT ?, ?, u, k, v FROM {}",
            [self.series, tick],
        )  # fmt: skip

    def remember_left(self, counter: int, left: Left) -> list[Statement]:
        """Return what writes what users leave."""
        columns = {"u": left.users, "k": left.coordinates, "t": left.ticks}
        table = pa.table(columns | {"r": left.rates, "s": left.steps})
        return self._from(
            "forecast_left_handed", table,
            "INSERT INTO ledger.forecast_left SELECT ?, ?, t, u, k, r, s FROM {}",
            [self.series, counter],
        )  # fmt: skip

    def announced(self) -> tuple[Ints, Ints, Ints]:
        """Return the weights that users have announced: tick, user, weight, by tick."""
        table = self._con.sql(
            "SELECT tick, _user, weight FROM ledger.forecast_part_time WHERE series = ? "
            "ORDER BY tick, _user",
            params=[self.series],
        ).to_arrow_table()
        tick, user, weight = (column.to_numpy().astype(np.int64) for column in table.columns)
        return tick, user, weight

    def remember_announced(self, tick: int, users: Ints, weights: Ints) -> list[Statement]:
        """Return what writes the weights that users announce at a tick."""
        return self._from(
            "forecast_part_time_handed", pa.table({"u": users, "w": weights}),
            "INSERT INTO ledger.forecast_part_time SELECT ?, ?, u, w FROM {}",
            [self.series, tick],
        )  # fmt: skip

    def _from(
        self, name: str, table: pa.Table, sql: str, parameters: Sequence[Any]
    ) -> list[Statement]:
        """Hand a table over; it stays until the next one of its name."""
        self._con.register(name, table)
        return [(sql.format(name), list(parameters))] if table.num_rows else []

    @property
    def counted(self) -> int:
        """Which revision of the rows the ticks have been counted in."""
        ((revision,),) = self._con.execute(
            "SELECT coalesce(max(revision), 0) FROM ledger.forecast_counted WHERE series = ?",
            [self.series],
        ).fetchall()
        return int(revision)

    def count_of(self, revision: int) -> Statement:
        """Return what remembers which revision of the rows the ticks have been counted in."""
        return "INSERT INTO ledger.forecast_counted VALUES (?, ?)", [self.series, revision]

    def recounted(self, revision: int, departed: Index, ticks: Iterable[Seen]) -> None:
        """Replace what was seen, but for departed users; in a transaction of the caller.

        Args:
            revision: Of the rows.
            departed: Whom to leave as they are.
            ticks: Every tick, and what the other users contribute to it.
        """
        self._con.register(_HANDED, pa.table({"u": departed}))
        try:
            self._con.execute(
                "DELETE FROM ledger.forecast_seen WHERE series = ? "
                f"AND _user NOT IN (SELECT u FROM {_HANDED})",
                [self.series],
            )
        finally:
            self._con.unregister(_HANDED)
        for tick in ticks:
            for sql, parameters in self.remember_seen(*tick):
                self._con.execute(sql, parameters)
        self._con.execute(*self.count_of(revision))
