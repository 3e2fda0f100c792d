"""Departure forecasts: what is released, what it costs, and that a restart changes nothing."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampled import one_in

import sparseq
from checks.stores import made_store
from sparseq.accounting import Budget, Price, budget_units, round_up
from sparseq.base.errors import ParameterError, QueryRefused
from sparseq.ledger.forecast_notes import ForecastNotes
from sparseq.ledger.pots import Pot
from sparseq.mechanisms.toeplitz_counter import coefficients
from sparseq.series.methods.corrector import PostProcessing
from sparseq.series.methods.counter_columns import Columns
from sparseq.series.methods.forecast import Forecast
from sparseq.series.methods.forecast_settings import ForecastTick
from sparseq.store import curator
from sparseq.store.curator import forget
from sparseq.store.store import Store

PLAIN = PostProcessing(smoothing=1.0)
COUNT = "SELECT count(DISTINCT who) AS n FROM t WHERE day = {}"
BY_KIND = "SELECT kind, sum(amount) AS total FROM t WHERE day = {} GROUP BY kind"


def events(users: int = 60, days: int = 30, seed: int = 1) -> pa.Table:
    """People who come on their own share of days, to one of three kinds, with an amount."""
    rng = np.random.default_rng(seed)
    rate = rng.uniform(0.05, 1.0, users)
    came = rng.random((days, users)) < rate
    day, who = np.nonzero(came)
    return pa.table(
        {
            "who": who,
            "day": day,
            "kind": np.array(["a", "b", "c"])[rng.integers(0, 3, len(who))],
            "amount": rng.integers(-2, 5, len(who)).astype(float),
        }
    )


def make(path: Path | None = None, table: pa.Table | None = None, **more: Any) -> Store:
    settings: dict[str, Any] = {
        "norm_budget": 8,
        "reserves": {"forecast": 0.25},
        "seed": 5,
        "keys": {"kind": ["a", "b", "c"]},
        "bounds": {"amount": (-2, 4)},
        "user": "who",
        "table": "t",
        "time": "day",
    }
    return made_store(path, events() if table is None else table, **settings | more, in_or_out=True)


def ask(store: Store, forecast: Forecast, day: int, sql: str = COUNT) -> ForecastTick:
    return forecast.ask(day, store.lower(sql.format(day)), request_id=f"day {day}")


@pytest.fixture
def no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = lambda sigma, size, entropy: np.zeros(size, np.int64)  # noqa: E731
    monkeypatch.setattr("sparseq.stream.step.rounded_gaussian", zeros)


# What is released -------------------------------------------------------------------------------


def by_definition(
    table: pa.Table, days: int, payable: float, d: int, at: Callable[[dict[str, Any]], Any]
) -> tuple[np.ndarray, np.ndarray]:
    """Answers over who has not departed, and the running sum of forecasts: dictionaries only."""
    rows: dict[int, dict[int, np.ndarray]] = defaultdict(lambda: defaultdict(lambda: np.zeros(d)))
    for row in table.to_pylist():
        place, value = at(row)
        rows[row["day"]][row["who"]][place] += value
    spent: dict[int, float] = defaultdict(float)
    total: dict[int, np.ndarray] = defaultdict(lambda: np.zeros(d))
    gone: set[int] = set()
    active, running, standing = np.zeros((days, d)), np.zeros((days, d)), np.zeros(d)
    for day in range(days):
        for who, vector in rows[day].items():
            cost = float(vector @ vector)
            if who in gone or cost == 0:
                continue
            if spent[who] + cost > payable:
                gone.add(who)
                standing = standing + total[who] / (day + 1)
            else:
                spent[who] += cost
                total[who] += vector
                active[day] += vector
        running[day] = standing
    return active, running


@pytest.mark.usefixtures("no_noise")
def test_a_count_is_corrected_by_the_means_of_who_has_departed() -> None:
    table = events().group_by(["who", "day"]).aggregate([])
    active, running = by_definition(table, 30, 6.0, 1, lambda row: (0, 1.0))
    assert running[-1] > 10
    with make(table=events()) as store:
        forecast = Forecast(store, "visitors", ticks=30, post=PLAIN)
        done = [ask(store, forecast, day) for day in range(30)]
    np.testing.assert_array_equal([f.active.value() for f in done], active[:, 0])
    np.testing.assert_allclose([f.forecast[0] for f in done], running[:, 0], atol=60 / 2**16)


@pytest.mark.usefixtures("no_noise")
def test_sums_by_group_are_corrected_group_by_group() -> None:
    """Scale 4: the charge is the squared norm in fours, and so the budget is 6 times 16."""
    table, groups = events(), ["a", "b", None]
    kinds = pa.array([k if k in groups else None for k in table["kind"].to_pylist()])
    table = table.set_column(table.column_names.index("kind"), "kind", kinds)
    at = lambda row: (groups.index(row["kind"]), row["amount"])  # noqa: E731
    active, running = by_definition(table, 30, 6.0 * 16, 3, at)
    assert (np.abs(running[-1]) > 1).all()
    with make(table=table, keys={"kind": ["a", "b"]}) as store:
        forecast = Forecast(store, "money", ticks=30, post=PLAIN)
        done = [ask(store, forecast, day, BY_KIND) for day in range(30)]
    found = np.array([f.active.arrow()["total"].to_numpy() for f in done])
    np.testing.assert_array_equal(found, active)
    np.testing.assert_allclose([f.forecast for f in done], running, atol=4 * 60 / 2**15)
    last = done[-1].arrow()
    assert last.column_names[:2] == ["kind", "total"]
    np.testing.assert_allclose(last["corrected"].to_numpy(), active[-1] + done[-1].forecast)


def test_who_has_left_the_series_comes_back_in_no_answer() -> None:
    """A large amount can't be paid for; the small ones after it could, and are in the forecast."""
    table = pa.table({"who": [1, 1, 1, 2], "day": [0, 1, 2, 2], "amount": [1.0, 4.0, 1.0, 1.0]})
    sql = "SELECT sum(amount) AS total FROM t WHERE day = {}"
    with make(None, table, keys={}, norm_budget=1) as store:
        forecast = Forecast(store, "money", ticks=3)
        for day in range(3):
            ask(store, forecast, day, sql)
        spent = store.stream.pots[Pot.QUERIES].spent
        assert spent[0] == spent[1] == 2**24 // 16  # day 0 of one, day 2 of the other


# What it costs ----------------------------------------------------------------------------------


@given(
    horizon=st.integers(1, 400),
    scale=st.sampled_from([1.0, 0.3, 500.0, 2.0**-30]),
    share=st.floats(0.01, 0.9),
    own=st.floats(0.0, 1.0),
    tick=st.integers(0, 399),
    norm_budget=st.sampled_from([1.0, 20.0, 365.5]),
)
def test_a_whole_column_can_always_be_paid(
    horizon: int, scale: float, share: float, own: float, tick: int, norm_budget: float
) -> None:
    """Charge by charge, as the store does, for the largest forecast that is allowed."""
    tick %= horizon
    budget = Budget(0.5, norm_budget)
    whole = int(Fraction(share) * budget_units(norm_budget))
    columns = Columns(budget, horizon, scale, whole)
    assert columns.most(whole, 0) >= columns.full() >= 2**30
    units = int(own * whole)
    norm = columns.most(units, tick)
    price = Price.of(columns.sigma, columns.row_step, budget)
    squares = coefficients(horizon)[: horizon - tick].astype(object) ** 2 * norm
    charges = [price.charge_one(int(s)) for s in squares]
    assert int(round_up(np.array(charges, np.int64)).sum()) <= units


@given(
    rates=st.lists(st.floats(-3, 3), min_size=1, max_size=6),
    own=st.floats(0.0, 1.0),
    tick=st.integers(0, 99),
)
def test_a_forecast_is_scaled_down_no_more_than_need_be(
    rates: list[float], own: float, tick: int
) -> None:
    budget = Budget(0.5, 20.0)
    columns = Columns(budget, 100, 1.0, 5 * 2**24)
    units = np.array([int(own * columns.units)])
    owner = np.zeros(len(rates), np.int64)
    steps = columns.fitted(owner, np.array(rates), units, np.array([tick]))
    most = min(columns.most(int(units[0]), tick), columns.full())
    norm = sum(int(s) ** 2 for s in steps)
    assert norm <= most
    wanted = np.rint(np.array(rates) / columns.step)
    if float(wanted @ wanted) <= most:
        np.testing.assert_array_equal(steps, wanted)
    else:
        shrunk = wanted * np.sqrt(most / float(wanted @ wanted))
        np.testing.assert_allclose(steps, shrunk, atol=1.01)


@pytest.mark.parametrize("sql", one_in(2, [BY_KIND, COUNT]))
def test_nobody_is_dropped_from_a_row_and_no_budget_is_passed(sql: str) -> None:
    rng = np.random.default_rng(2)
    table = events()
    budgets = rng.uniform(0, 8, 60).round(1)[table["who"].to_numpy()]
    with make(None, table.append_column("own", pa.array(budgets)), budget_column="own") as store:
        forecast = Forecast(store, "s", ticks=30)
        for day in range(30):
            ask(store, forecast, day, sql)
        reserve, left = store.stream.pots[Pot.FORECAST], forecast._left
        assert (reserve.spent <= reserve.budgets).all()
        assert len(np.unique(left.users)) > 30
        step, uv = forecast._columns.row_step, Fraction(8) / (2 * Fraction(0.5))
        price = float(Fraction(step) ** 2 * uv * 2**24 / Fraction(forecast._columns.sigma) ** 2)
        for who in np.unique(left.users):
            mine = left.users == who
            ages = 30 - left.ticks[mine][0]
            column = float((coefficients(30)[:ages] ** 2).sum())
            due = column * float((left.steps[mine] ** 2).sum()) * price
            assert due <= reserve.spent[who] <= 1.001 * due + ages + 1


def exact_releases(table: pa.Table, sql: str) -> tuple[list[np.ndarray], np.ndarray]:
    """Every release's exact sums in units of its sigma; and what each user was charged."""
    with make(None, table) as store:
        forecast = Forecast(store, "s", ticks=12, slices=2)
        sums = []
        for day in range(30):
            done = ask(store, forecast, day, sql)
            sums.append(np.array(done.active.arrow()[-2].to_numpy()) / done.active.facts.sigma[0])
        for release in forecast._rows.values():
            answer = store.release(release)
            sums.append(answer.arrow()["value"].to_numpy() / answer.facts.sigma[0])
        charged = sum(accounts.spent for _, accounts in store.stream.pots.items())
        return sums, charged


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("sql", [BY_KIND, pytest.param(COUNT, marks=pytest.mark.deep)])
def test_without_a_user_the_releases_move_by_what_the_user_was_charged(sql: str) -> None:
    """The theorem's premise, end to end: squared distance of all releases, in sigmas, is 2 rho."""
    table = events()
    sums, charged = exact_releases(table, sql)
    for who in (3, 40):
        rest = table.filter(pa.array(table["who"].to_numpy() != who))
        others, _ = exact_releases(rest, sql)
        moved = sum(float(((a - b) ** 2).sum()) for a, b in zip(sums, others, strict=True))
        paid = charged[who] / 2**24 * (2 * 0.5 / 8)
        assert moved <= paid * (1 + 1e-9)
        assert moved >= paid * 0.99


# Restarts ---------------------------------------------------------------------------------------


@pytest.mark.deep
def test_a_restart_and_a_crash_between_the_two_releases_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with make() as store:
        forecast = Forecast(store, "s", ticks=8, slices=2)
        expected = [ask(store, forecast, day) for day in range(12)]
        releases = store.releases()[-1].id
    path = tmp_path / "s.sparseq"
    make(path).close()
    for day in range(12):
        with sparseq.connect(path) as store:
            first = {"ticks": 8} if day == 0 else {}
            forecast = Forecast(store, "s", slices=2, **first)
            if day % 3 == 1:
                with monkeypatch.context() as patch:
                    patch.setattr(Forecast, "_row", interrupted)
                    with pytest.raises(KeyboardInterrupt):
                        ask(store, forecast, day)
                found = ask(store, Forecast(store, "s"), day)
            else:
                found = ask(store, forecast, day)
            assert same(found, expected[day])
            assert all(
                same(ask(store, forecast, d), expected[d]) for d in range(max(0, day - 3), day)
            )
    with sparseq.connect(path) as store:
        assert all(same(ask(store, Forecast(store, "s"), d), expected[d]) for d in range(12))
        assert store.releases()[-1].id == releases


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def same(a: ForecastTick, b: ForecastTick) -> bool:
    return (
        a.active.arrow() == b.active.arrow()
        and np.array_equal(a.corrected, b.corrected)
        and a.noise_error == b.noise_error
        and np.array_equal(a.forecast_error, b.forecast_error, equal_nan=True)
    )


def test_a_store_has_settings_under_the_names_of_its_format() -> None:
    """Those of the version that made the format: both read each other's stores."""
    with make() as store:
        ask(store, Forecast(store, "s", ticks=8, cap=0.5), 0)
        sql = "SELECT settings FROM ledger.forecast"
        ((stored,),) = store.backend.database.execute(sql).fetchall()
        assert json.loads(stored)["clip"] == 0.5
        change = "UPDATE ledger.forecast SET settings = ?"
        store.backend.database.execute(change, [json.dumps(json.loads(stored) | PART_TIME[0])])
        Forecast(store, "s", cap=0.5)
        store.backend.database.execute(change, [json.dumps(json.loads(stored) | PART_TIME[1])])
        with pytest.raises(ParameterError, match="begun in part time, which no longer exists"):
            Forecast(store, "s", cap=0.5)


PART_TIME = {"part_time": False}, {"part_time": True}


# Late rows, new users, horizons -----------------------------------------------------------------


@pytest.mark.usefixtures("no_noise")
@pytest.mark.parametrize("late", [True, False])
def test_late_rows_are_counted_before_the_next_tick_and_so_are_new_users(late: bool) -> None:
    """Person 1 departs on day 5, with a row of day 1 that came in after day 4, or without it."""
    table = pa.table({"who": [1] * 4, "day": [0, 2, 4, 5]})
    with make(None, table, keys={}, bounds={}, norm_budget=4, reserves={"forecast": 0.25}) as store:
        query_of = lambda day: store.lower(COUNT.format(day))  # noqa: E731
        forecast = Forecast(store, "s", ticks=10, post=PLAIN, query_of=query_of)
        for day in range(5):
            ask(store, forecast, day)
        rows = pa.table({"who": [1, 2, 2, 2, 2], "day": [1, 5, 6, 7, 8]})
        releases, spent = store.released, store.stream.pots[Pot.QUERIES].spent.sum()
        store.ingest(rows, late=late)
        found = [float(ask(store, forecast, day).forecast[0]) for day in range(5, 9)]
        assert store.released == releases + 2 * 4
        assert store.stream.pots[Pot.QUERIES].spent.sum() == spent + 3 * 2**24  # of the new person
    one = (4 if late else 3) / 6
    assert found == pytest.approx([one, one, one, one + 3 / 9], abs=1e-4)


def test_counting_anew_finds_what_was_seen_and_a_correction_replaces_it() -> None:
    """Where nothing has changed the same is remembered; who has departed is left as it was."""
    settings = {"row_key": ["day"], "norm_budget": 2}
    table = events().group_by(["who", "day"]).aggregate([("kind", "max"), ("amount", "max")])
    table = table.rename_columns(["who", "day", "kind", "amount"])
    with make(None, table, **settings) as store:
        forecast = Forecast(
            store, "s", ticks=30, query_of=lambda day: store.lower(BY_KIND.format(day))
        )
        for day in range(20):
            ask(store, forecast, day, BY_KIND)
        before = seen(store)
        gone = set(forecast._left.users.tolist())
        store.ingest(table.slice(0, 0))
        ask(store, forecast, 20, BY_KIND)
        after = seen(store)
        assert {cell: v for cell, v in after.items() if cell[0] < 20} == before
        here, departed = (
            next((t, u, k) for t, u, k in before if (u in gone) is which) for which in (False, True)
        )
        for tick, user, _ in (here, departed):  # identifiers are 0, 1, … as users are
            (row,) = table.filter(
                pa.array((table["who"].to_numpy() == user) & (table["day"].to_numpy() == tick))
            ).to_pylist()
            store.ingest(pa.Table.from_pylist([row | {"amount": 3.0 - row["amount"]}]))
        ask(store, forecast, 21, BY_KIND)
        anew = seen(store)
        assert anew.get(here, 0.0) == 3.0 - before[here]
        changed = {c for c in after.keys() | anew.keys() if after.get(c) != anew.get(c)}
        assert {c for c in changed if c[0] < 21} == {here}


def seen(store: Store) -> dict[tuple[int, int, int], float]:
    sql = "SELECT tick, _user, coordinate, value FROM ledger.forecast_seen"
    rows = store.backend.database.execute(sql).fetchall()
    found = {(t, u, k): v for t, u, k, v in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.deep
def test_an_interrupted_recount_is_done_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = events(seed=2).filter(pa.array(events(seed=2)["day"].to_numpy() < 4))

    def run(
        path: Path, interrupt: str | None, is_late: bool = True
    ) -> tuple[list[float], list[Any]]:
        make(path).close()
        found = []
        for first, stop in ((0, 4), (4, 8)):
            if first:
                with sparseq.connect(path) as store:
                    store.ingest(late, late=is_late)
                if interrupt:
                    with monkeypatch.context() as patch, sparseq.connect(path) as store:
                        forecast = opened(store)
                        patch.setattr(ForecastNotes, interrupt, interrupted)
                        with pytest.raises(KeyboardInterrupt):
                            ask(store, forecast, first)
                    with sparseq.connect(path) as store:
                        assert store.released == 8
            with sparseq.connect(path) as store:
                forecast = opened(store)
                found += [float(ask(store, forecast, d).corrected[0]) for d in range(first, stop)]
        with sparseq.connect(path) as store:
            return found, [accounts.spent.tolist() for _, accounts in store.stream.pots.items()]

    def opened(store: Store) -> Forecast:
        return Forecast(store, "s", ticks=30, query_of=lambda day: store.lower(COUNT.format(day)))

    whole = run(tmp_path / "whole", None)
    assert run(tmp_path / "never", None, is_late=False) != whole
    assert run(tmp_path / "remembering", "remember_seen") == whole
    assert run(tmp_path / "ending", "count_of") == whole


def test_who_is_erased_leaves_nothing_in_the_forecasts(tmp_path: Path) -> None:
    with make(tmp_path / "s.sparseq") as store:
        forecast = Forecast(store, "s", ticks=30)
        for day in range(20):
            ask(store, forecast, day)
        gone = int(forecast._left.users[forecast._left.steps > 0][0])
        curator.forget(store, gone)  # identifiers are 0, 1, … as users are
        forecast = Forecast(store, "s")
        assert forecast._left.steps[forecast._left.users == gone].tolist() == [0]
        assert len(forecast._notes.seen(np.array([gone], np.int32))[0]) == 0
        before = store.stream.pots[Pot.FORECAST].spent[gone]
        ask(store, forecast, 20)
        assert store.stream.pots[Pot.FORECAST].spent[gone] == before


@pytest.mark.usefixtures("no_noise")
def test_a_new_counter_takes_the_standing_forecasts_on_and_after_the_last_they_stay() -> None:
    with make() as store:
        forecast = Forecast(store, "s", ticks=10, slices=2, post=PLAIN)
        done = [ask(store, forecast, day) for day in range(20)]
        spent = store.stream.pots[Pot.FORECAST].spent.copy()
        done += [ask(store, forecast, day) for day in range(20, 24)]
        np.testing.assert_array_equal(store.stream.pots[Pot.FORECAST].spent, spent)
    table = events().group_by(["who", "day"]).aggregate([])
    _, running = by_definition(table, 24, 6.0, 1, lambda row: (0, 1.0))
    expected = np.concatenate([running[:20, 0], running[19:20, 0].repeat(4)])
    np.testing.assert_allclose([f.forecast[0] for f in done], expected, atol=60 / 2**15)


# The interface ----------------------------------------------------------------------------------


@pytest.fixture
def begun() -> Iterator[tuple[Store, Forecast]]:
    with make() as store:
        forecast = Forecast(store, "s", ticks=10, share=0.7)
        ask(store, forecast, 0)
        yield store, forecast


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s, f: ask(s, f, 2), ParameterError, "tick 2 of 's' is not the next, which is 1"),
        (lambda s, f: f.ask(0, s.lower(COUNT.format(7))), QueryRefused, "asked another query"),
        (lambda s, f: ask(s, f, 1, BY_KIND), QueryRefused, "other groups"),
        (
            lambda s, f: ask(s, f, 1, "SELECT avg(amount) AS a FROM t WHERE day = {}"),
            QueryRefused,
            "one COUNT or SUM",
        ),
        (
            lambda s, f: ask(s, f, 1, "SELECT count(*) / 2 AS n FROM t WHERE day = {}"),
            QueryRefused,
            "one COUNT or SUM",
        ),
        (lambda s, f: Forecast(s, "s", ticks=9), ParameterError, "begun with ticks 10, not 9"),
        (lambda s, f: Forecast(s, "new"), ParameterError, "to begin one, give ticks"),
        (lambda s, f: Forecast(s, "new", ticks=5), ParameterError, "more than is left"),
        (lambda s, f: Forecast(s, "new", ticks=0, share=0.1), ParameterError, "ticks is 0"),
        (
            lambda s, f: Forecast(s, "new", ticks=5, share=0.1, form="median"),
            ParameterError,
            "form is 'median'",
        ),
    ],
)
def test_what_does_not_fit_is_refused_and_charges_nothing(
    begun: tuple[Store, Forecast],
    call: Callable[[Store, Forecast], object],
    error: type[Exception],
    message: str,
) -> None:
    store, forecast = begun
    before = store.releases()
    with pytest.raises(error, match=message):
        call(store, forecast)
    assert store.releases() == before


def test_a_store_without_a_reserve_makes_no_forecasts() -> None:
    with (
        make(reserves={}) as store,
        pytest.raises(ParameterError, match="no reserve for forecast"),
    ):
        Forecast(store, "s", ticks=10)


def test_two_series_share_the_reserve() -> None:
    with make() as store:
        counts = Forecast(store, "counts", ticks=30, share=0.5)
        ask(store, counts, 0)
        sums = Forecast(store, "sums", ticks=30, share=0.5)
        for day in range(30):
            if day:
                ask(store, counts, day)
            sums.ask(day, store.lower(BY_KIND.format(day)))
        reserve = store.stream.pots[Pot.FORECAST]
        assert (reserve.spent <= reserve.budgets).all()
        assert (reserve.spent > 0).any()


def test_who_is_forgotten_leaves_nothing_behind_and_does_not_come_back(tmp_path: Path) -> None:
    store = make(tmp_path / "s")
    forecast = Forecast(store, "n", ticks=30)
    for day in range(20):
        ask(store, forecast, day)
    users = np.unique(
        store.backend.database.sql("SELECT _user FROM ledger.forecast_left").fetchall()
    )
    one = int(users[0])
    ((who,),) = store.backend.database.execute(
        f"SELECT id FROM ledger.users WHERE _user = {one}"
    ).fetchall()
    forget(store, who)
    left = "SELECT rate, steps FROM ledger.forecast_left WHERE _user = "
    assert set(store.backend.database.execute(f"{left}{one}").fetchall()) == {(0.0, 0)}
    assert (0.0, 0) not in store.backend.database.execute(f"{left}{int(users[1])}").fetchall()
    seen = "SELECT count(*) FROM ledger.forecast_seen WHERE _user = "
    assert store.backend.database.execute(f"{seen}{one}").fetchall() == [(0,)]
    assert store.backend.database.execute(f"{seen}{int(users[1])}").fetchall() != [(0,)]
    store.close()
    with sparseq.connect(tmp_path / "s") as store:
        store.ingest(pa.table({"who": [who], "day": [25], "kind": ["a"], "amount": [1.0]}))
        before = [accounts.spent[one] for _, accounts in store.stream.pots.items()]
        forecast = Forecast(store, "n")
        for day in range(20, 30):
            ask(store, forecast, day)
        assert [accounts.spent[one] for _, accounts in store.stream.pots.items()] == before
