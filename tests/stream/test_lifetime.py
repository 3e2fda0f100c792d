"""A cap over all windows of a person: docs/theorems/windows.md."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from click.testing import CliRunner

import sparseq
from checks.stores import made_store
from sparseq.accounting import UNITS_PER_NORM
from sparseq.cli.app import sparseq as command_line
from sparseq.series.methods.strategy_series import CorrelatedSeries
from sparseq.store import curator

FIRST, APART = dt.date(2024, 1, 1), "SELECT count(*) AS n FROM t WHERE day = DATE '{}'"
WHOLE = "SELECT count(*) AS n FROM t"


def visits(months: int, *people: str, first: int = 0) -> pa.Table:
    """One row of each person on the first of each month."""
    days = [dt.date(2024, 1 + first + m, 1) for m in range(months)]
    return pa.table({"who": [p for p in people for _ in days], "day": days * len(people)})


def store(source: pa.Table, path: Path | None = None, **more: object) -> sparseq.Store:
    given = {"window": ("month", 1.25), "norm_budget": 4.0, "in_or_out": True, "seed": 1}
    return made_store(path, source, table="t", user="who", time="day", **given | more)  # type: ignore[arg-type]


def lived(con: sparseq.Store) -> dict[int, float]:
    """What people have spent for life, as counts, by their first window."""
    lifetimes = con.stream.ledger.lifetimes
    assert lifetimes is not None
    first = sorted(set(lifetimes.people.tolist()))
    return {k: float(lifetimes.spent[k]) / UNITS_PER_NORM for k in first}


def test_windows_together_cost_the_square_of_their_sum_and_apart_their_sum() -> None:
    con = store(visits(3, "ann"))
    con.sql(
        "SELECT date_trunc('month', day) AS m, count(*) AS n FROM t "
        "WHERE day BETWEEN '2024-01-01' AND '2024-03-31' GROUP BY 1"
    )
    assert lived(con) == {0: 3.0}
    con.sql(WHOLE, scale=2)  # a quarter each: (3/2)²
    assert lived(con) == {0: 5.25}


def test_who_cannot_pay_for_months_together_is_out_of_that_alone_and_for_one_apart_for_good() -> (
    None
):
    con = store(visits(4, "ann"))
    con.sql(WHOLE)  # 16 of 10
    assert lived(con) == {0: 0.0}
    for month in (1, 2, 3):
        for _ in range(3):
            con.sql(APART.format(dt.date(2024, month, 1)), fresh=True)
    assert lived(con) == {0: 9.0}
    con.sql(APART.format(dt.date(2024, 4, 1)), scale=0.75)  # 16/9 of the 1 that is left
    assert lived(con) == {0: 10.0}
    con.sql(APART.format(dt.date(2024, 4, 1)), scale=8)
    assert con.stream.accounts.spent[3] == 0


@pytest.mark.parametrize("erased", [False, True])
def test_a_person_is_the_same_after_a_restart_new_months_and_an_erasure(
    tmp_path: Path, erased: bool
) -> None:
    """A new month of somebody who was erased finds the account for life as it was."""
    con = store(visits(2, "ann", "ann,x", "bob"), tmp_path / "s")
    con.sql(APART.format("2024-02-01"))
    if erased:
        assert curator.forget(con, "ann").people == 2
    con.close()
    with sparseq.connect(tmp_path / "s") as again:
        assert lived(again) == {0: 1.0, 2: 1.0, 4: 1.0}
        again.ingest(visits(3, "ann", "bob", "new", first=1))
        assert again.stream.ledger.lifetimes.people.tolist() == [  # type: ignore[union-attr]
            0,
            0,
            2,
            2,
            4,
            4,
            0,
            0,
            4,
            4,
            10,
            10,
            10,
        ]
        again.sql(APART.format("2024-04-01"))
        assert lived(again) == {0: 2.0, 2: 1.0, 4: 2.0, 10: 1.0}
        with pytest.raises(sparseq.ParameterError, match="nobody has"):
            curator.account(again, "ann")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"window": ("", 5.0)}, "window is ''"),
        ({"halt": True}, "neither halt"),
        ({"reserves": {"forecast": 0.2}}, "neither halt"),
        ({"window": ("month", 0.4)}, "between kappa"),
        ({"window": ("month", 501)}, "between kappa"),
    ],
)
def test_what_does_not_go_with_it_is_refused(more: dict[str, object], said: str) -> None:
    with pytest.raises(sparseq.ParameterError, match=said):
        store(visits(1, "ann"), **more)


def weighted(months: int, people: int, life: float, seed: int) -> tuple[sparseq.Store, pa.Table]:
    """A default store; people have some rows in most months, of amounts with a heavy tail."""
    rng = np.random.default_rng(seed)
    rows = rng.poisson(rng.gamma(2.0, 0.8, people)[:, None], (people, months))
    who, month = (np.repeat(at, rows.ravel()) for at in np.indices(rows.shape).reshape(2, -1))
    days = [
        dt.date(2020 + m // 12, 1 + m % 12, int(d))
        for m, d in zip(month.tolist(), rng.integers(1, 28, len(who)), strict=True)
    ]
    amount = np.minimum(rng.lognormal(3, 1, len(who)), 500.0)
    table = pa.table({"who": who, "day": days, "amount": amount, "month": month})
    con = sparseq.create(
        None,
        {"t": table.drop_columns("month")},
        user="who",
        time="day",
        window=("month", life),
        bounds={"amount": (0, 500)},
        seed=seed,
    )
    return con, table


@pytest.mark.deep
def test_questions_are_about_everybody_while_years_go_by() -> None:
    """Intervals hold the truth about everybody, month after month; nobody is dropped."""
    con, table = weighted(30, 1200, 5.0, 4)
    inside, answers = 0, 0
    for m in range(30):
        month = table.filter(pc.equal(table["month"], m))
        truth = {
            "count(DISTINCT who)": pc.count_distinct(month["who"]).as_py(),
            "count(*)": len(month),
            "avg(amount)": pc.mean(month["amount"]).as_py(),
        }
        first = dt.date(2020 + m // 12, 1 + m % 12, 1)
        for what, true in truth.items():
            (row,) = con.sql(
                f"SELECT {what} AS x FROM t WHERE date_trunc('month', day) = DATE '{first}'"
            ).rows()
            inside, answers = inside + (row["x_low"] <= true <= row["x_high"]), answers + 1
    assert con.stream.course is not None
    assert inside >= 0.93 * answers
    assert con.stream.course.about((600, 600)).sure
    life = con.stream.course.life
    assert life is not None
    assert 0 < life.least < 480
    lifetimes = con.stream.ledger.lifetimes
    assert lifetimes is not None
    assert 0 < int(lifetimes.spent.max()) <= lifetimes.budget


def test_what_could_be_about_any_window_is_refused_with_what_to_say() -> None:
    con, _ = weighted(3, 20, 5.0, 1)
    with pytest.raises(sparseq.QueryRefused, match="pay for all of their windows together"):
        con.sql(WHOLE)
    assert con.stream.next_release == 1
    (row,) = con.sql(
        "SELECT count(*) AS n FROM t WHERE day < DATE '2020-04-01' AND day >= DATE '2020-01-01'"
    ).rows()
    assert row["n_low"] <= row["n"] <= row["n_high"]


def test_a_strategy_is_refused() -> None:
    con = store(visits(1, "ann"))
    with pytest.raises(sparseq.ParameterError, match="prepays"):
        CorrelatedSeries(con, "s", "1,-0.5")


def test_the_promise_is_said_wherever_budgets_are(tmp_path: Path) -> None:
    store(visits(2, "ann"), tmp_path / "s").close()
    runner = CliRunner()
    for command in (["budget", f"{tmp_path / 's'}"], ["sql", f"{tmp_path / 's'}", WHOLE]):
        shown = runner.invoke(command_line, command)
        assert shown.exit_code == 0, shown.output
        assert "one who in one month" in shown.output
        assert "1.25-zCDP" in shown.output
