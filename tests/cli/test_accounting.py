"""`accounting`: every form of a guarantee, safe in every direction; odometer, curves, filters."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from command_runs import output, run

from sparseq.accounting import Budget, filters, gdp, rdp, zcdp
from sparseq.accounting.odometers import CODE_ORDERS, LecuyerOdometer

TRAINING = ("--noise", "1", "--batch", "512", "--examples", "50000", "--epochs", "20")


def facts(*args: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(output("accounting", *args, "--format", "json"))
    return found


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("convert", ("convert", "--kappa", "0.5", "--delta", "1e-6")),
        ("convert_sigma", ("convert", "--sigma", "20", "--norm-budget", "400")),
        ("convert_epsilon", ("convert", "--epsilon", "2", "--delta", "1e-9")),
        ("odometer", ("odometer", *TRAINING)),
        ("curve", ("curve",)),
        (
            "curve_sampled",
            ("curve", "--sampled", "0.01", "1", "--gaussian", "1", "--orders", "1.5", "64"),
        ),
        ("compare", ("compare",)),
        ("compare_finer", ("compare", "--epsilon", "2", "--delta", "1e-9", "--sigma", "50")),
    ],
)
def test_text(name: str, args: tuple[str, ...], golden: Callable[[str, str], None]) -> None:
    golden(f"accounting_{name}", output("accounting", *args))


# ---- convert


@pytest.mark.parametrize("kappa", [1e-6, 0.03, 0.5, 7.0, 900.0])
def test_convert_from_kappa_is_what_a_store_promises(kappa: float) -> None:
    found = facts("convert", "--kappa", str(kappa), "--delta", "1e-7")
    budget = Budget(kappa, 1.0)
    assert found == {
        "kappa": kappa,
        "mu": budget.mu,
        "delta": 1e-7,
        "epsilon_zcdp": budget.epsilon_zcdp(1e-7),
        "epsilon_gdp": budget.epsilon(1e-7),
        "right_guess": gdp.best_guess(float(budget.mu or 0)),
    }


def test_convert_from_sigma_is_kappa_of_corollary_4_7() -> None:
    found = facts("convert", "--sigma", "10", "--norm-budget", "100")
    assert (found["kappa"], found["mu"], found["sigma"]) == (0.5, 1.0, 10.0)
    assert found["epsilon_gdp"] == gdp.epsilon(1e-6, 1.0)


@pytest.mark.parametrize("mu", [0.1, 1.0, 1.7, 30.0])
def test_convert_from_mu_never_shows_too_small_a_kappa(mu: float) -> None:
    found = facts("convert", "--mu", str(mu))
    assert found["mu"] == mu
    assert found["kappa"] == pytest.approx(mu**2 / 2, rel=1e-15)
    assert found["epsilon_gdp"] == gdp.epsilon(1e-6, mu) <= found["epsilon_zcdp"]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0, 8.0])
def test_convert_from_epsilon_never_promises_more(epsilon: float) -> None:
    found = facts("convert", "--epsilon", str(epsilon), "--delta", "1e-6")
    assert found["epsilon_gdp"] <= epsilon < found["epsilon_zcdp"]
    assert Budget(found["kappa"], 1.0).epsilon(1e-6) <= epsilon
    assert zcdp.epsilon(1e-6, found["kappa_zcdp"]) <= epsilon
    assert found["kappa_zcdp"] < found["kappa"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "give one of"),
        (("--kappa", "1", "--mu", "1"), "give one of"),
        (("--sigma", "1"), "go together"),
        (("--kappa", "1", "--norm-budget", "1"), "go together"),
        (("--kappa", "0"), "kappa is 0.0; it must be in"),
        (("--mu", "nan"), "mu is nan; it must be in"),
        (("--kappa", "inf"), "kappa is inf; it must be in"),
        (("--sigma", "-2", "--norm-budget", "1"), "sigma is -2.0; it must be in"),
        (("--sigma", "2", "--norm-budget", "0"), "norm_budget is 0.0; it must be in"),
        (("--epsilon", "-1"), "epsilon is -1.0; it must be in"),
        (("--kappa", "1", "--delta", "0"), "delta is 0.0; it must be in"),
        (("--kappa", "1", "--delta", "1"), "delta is 1.0; it must be in"),
    ],
)
def test_convert_refuses_bad_numbers_with_value_and_range(
    args: tuple[str, ...], words: str
) -> None:
    result = run("accounting", "convert", *args)
    assert result.exit_code == 2
    assert words in result.stderr
    assert not result.stdout


# ---- odometer


def test_odometer_is_lecuyers_and_both_bounds_are_there() -> None:
    found = facts("odometer", *TRAINING, "--delta", "1e-6", "--orders", "code", "--start", "0.25")
    odometer = LecuyerOdometer(1e-6, CODE_ORDERS, 0.25)
    odometer.step(rdp.subsampled_gaussian(512 / 50_000, 1.0, CODE_ORDERS), 20 * 98)
    assert found["epsilon_odometer"] == odometer.epsilon()
    assert found["epsilon_odometer"] == pytest.approx(4.740, abs=6e-4)
    assert (found["steps"], found["orders"], found["start"]) == (1960, 34, 0.25)
    assert found["epsilon_rdp"] < found["epsilon_rdp_mironov"] < found["epsilon_odometer"]


def test_odometer_reproduces_the_papers_rdp() -> None:
    found = facts("odometer", *TRAINING[:-1], "50")
    assert round(found["epsilon_rdp_mironov"], 2) == 5.76


@pytest.mark.parametrize("orders", ["default", "text", "code", "dyadic"])
def test_odometer_takes_every_set_of_orders(orders: str) -> None:
    few = ("odometer", "--noise", "8", "--batch", "10", "--examples", "100", "--epochs", "1")
    assert 0 < facts(*few, "--orders", orders)["epsilon_odometer"] < math.inf


def test_before_the_first_step_nothing_is_spent() -> None:
    found = facts("odometer", *TRAINING[:-1], "0")
    assert (found["steps"], found["epsilon_rdp"]) == (0, 0.0)
    assert found["epsilon_odometer"] < 0.4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("--noise", "0"), "sigma is 0.0; it must be in"),
        (("--batch", "50001"), "batch is 50001; it must be in [1, 50000]"),
        (("--epochs", "-1"), "--epochs"),
        (("--delta", "2"), "delta is 2.0; it must be in"),
        (("--start", "0"), "start is 0.0; it must be in"),
    ],
)
def test_odometer_refuses_bad_numbers(change: tuple[str, ...], words: str) -> None:
    result = run("accounting", "odometer", *TRAINING, *change)
    assert result.exit_code == 2
    assert words in result.stderr


# ---- curve


def test_curves_are_those_of_the_library() -> None:
    found = facts(
        "curve",
        "--gaussian",
        "2",
        "--laplace",
        "1.5",
        "--response",
        "0.75",
        "--pure",
        "0.5",
        "--sampled",
        "0.02",
        "0.9",
        "--orders",
        "2",
        "32",
    )
    orders = found["orders"]
    assert (orders[0], orders[-1]) == (2.0, pytest.approx(32.0))
    expected = [
        rdp.gaussian(2.0, orders),
        rdp.laplace(1.5, orders),
        rdp.randomized_response(0.75, orders),
        rdp.pure(0.5, orders),
        rdp.subsampled_gaussian(0.02, 0.9, orders),
    ]
    for one, values in zip(found["curves"], expected, strict=True):
        assert one["rdp"] == values.tolist()
        assert one["epsilon_rdp"] == rdp.epsilon(values, orders, 1e-6)


def test_a_flat_or_vanishing_curve_can_be_drawn() -> None:
    for args in (
        ("--response", "0.5"),
        ("--pure", "0"),
        ("--gaussian", "1e200"),
        ("--gaussian", "1", "--orders", "2", "2.0001"),
    ):
        assert "mechanism" in output("accounting", "curve", *args)


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_plot(suffix: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / f"rdp.{suffix}"
    output("accounting", "curve", "--plot", file)
    drawn = file.read_bytes()
    assert drawn.startswith(b"\x89PNG") if suffix == "png" else b"<svg" in drawn
    assert [one.name for one in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--gaussian", "0"), "sigma is 0.0; it must be in"),
        (("--response", "1"), "it must be in (0, 1)"),
        (("--orders", "1", "4"), "order is 1.0; it must be in"),
        (("--orders", "4", "2"), "orders go from 4 to 2"),
        (("--pure", "1") * 9, "at most 8"),
        (("--plot", "x.pdf"), "has a suffix that is not known"),
        (("--plot", "/no/such/folder/x.svg"), "can't write"),
    ],
)
def test_curve_refuses_what_it_cannot_draw(args: tuple[str, ...], words: str) -> None:
    result = run("accounting", "curve", *args)
    assert result.exit_code == 2
    assert words in result.stderr


def test_plot_without_matplotlib_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = run("accounting", "curve", "--plot", tmp_path / "x.png")
    assert result.exit_code == 2
    assert "pip install 'sparseq[plot]'" in result.stderr


# ---- compare


def test_compare_is_the_librarys() -> None:
    args = ("--epsilon", "2", "--delta", "1e-9", "--sigma", "50", "--query-epsilon", "0.1")
    found = facts("compare", *args)
    rows = filters.compare(2.0, 1e-9, 50.0, 0.1)
    assert found.pop("rules") == [asdict(one) for one in rows]
    assert found == {"epsilon": 2.0, "delta": 1e-9, "sigma": 50.0, "query_epsilon": 0.1}
    text = output("accounting", "compare", *args)
    for one in rows:
        assert one.rule in text
        assert one.gaussian is None or f"{one.gaussian:,}" in text


@pytest.mark.parametrize("option", ["epsilon", "delta", "sigma", "query-epsilon"])
def test_compare_refuses_bad_numbers(option: str) -> None:
    result = run("accounting", "compare", f"--{option}", "-1")
    assert result.exit_code == 2
    assert "is -1.0; it must be in" in result.stderr
