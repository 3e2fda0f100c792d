"""Ten questions about everybody, each asked six times, beside a plan that was made by hand.

    python -m benchmarks everybody

This is the case in which accounts per person do not pay: everybody is in every question. The plan
splits the same budget over the 60 answers, and knows for each question the bound of a person's
contribution that is best in hindsight, which nobody can know. Its interval is that of its noise and
of what its bound cuts. The rows are CDNOW's purchases (data/README.md).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt

import sparseq
from benchmarks.truth.asking import by_group

SOURCE = Path(__file__).parent.parent / "data" / "cdnow.parquet"
KAPPA, TIMES, SEEDS, TOP = 0.5, 6, (1, 2, 3), 1300.0
MONTHS = "date >= DATE '1997-01-01' AND date < DATE '1998-07-01'"
QUESTIONS = {
    "people": ("count(DISTINCT customer_id)", "", ""),
    "rows": ("count(*)", "", ""),
    "sum of amounts": ("sum(amount)", "", ""),
    "sum of quantities": ("sum(quantity)", "", ""),
    "people with a large order": ("count(DISTINCT customer_id)", "amount >= 50", ""),
    "small orders": ("count(*)", "amount < 20", ""),
    "people by month": ("count(DISTINCT customer_id)", MONTHS, "month"),
    "rows by month": ("count(*)", MONTHS, "month"),
    "amounts by month": ("sum(amount)", MONTHS, "month"),
    "rows by quantity": ("count(*)", "quantity <= 6", "quantity"),
}
"""By name: the aggregate, the condition, and the key."""
KEYS = {"month": "date_trunc('month', date)", "quantity": "quantity"}

Floats = npt.NDArray[np.float64]


def question(name: str, by: str = "") -> str:
    """Return the SQL of a question, with a further key in front."""
    aggregate, where, key = QUESTIONS[name]
    keys = {name: k for name, k in (("person", by), ("g", KEYS.get(key, ""))) if k}
    columns = "".join(f"{k} AS {name}, " for name, k in keys.items())
    where = f" WHERE {where}" if where else ""
    group = f" GROUP BY {', '.join(keys.values())}" if keys else ""
    return f"SELECT {columns}{aggregate} AS x FROM orders{where}{group}"


def by_hand(per_person: Floats, answers: int) -> tuple[float, float]:
    """Return the median error and the half-width of a plan that knows the best bound.

    Each person's row is scaled to norm C at most, and each of the answers has Gaussian noise of
    sigma C·sqrt(answers / (2 kappa)), which is zCDP of kappa in all. The best C is chosen for
    the error and for the width alone. Intervals hold for all cells of an answer at once, as ours.

    Args:
        per_person: What each person contributes, of shape (people, cells).
        answers: Number of answers that share the budget.
    """
    norms = np.linalg.norm(per_person, axis=1)
    z = statistics.NormalDist().inv_cdf(1 - 0.025 / per_person.shape[1])
    errors, halves = [], []
    for bound in np.unique(np.quantile(norms[norms > 0], [0.5, 0.8, 0.9, 0.95, 0.99, 0.999, 1])):
        weights = np.minimum(1, bound / np.maximum(norms, bound))
        cut = per_person.sum(axis=0) - weights @ per_person
        sigma = bound * np.sqrt(answers / (2 * KAPPA))
        errors.append(float(np.median(np.hypot(cut, 0.6745 * sigma))))
        halves.append(float(np.median(cut + z * sigma)))
    return min(errors), min(halves)


def contributions(exact: duckdb.DuckDBPyConnection, name: str) -> Floats:
    """Return what each person contributes to a question, of shape (people, cells)."""
    rows = exact.execute(question(name, "customer_id")).fetchall()
    people = {person: i for i, person in enumerate(dict.fromkeys(row[0] for row in rows))}
    cells = {key: i for i, key in enumerate(sorted({row[1:-1] for row in rows}))}
    found = np.zeros((len(people), len(cells)))
    for row in rows:
        found[people[row[0]], cells[row[1:-1]]] = float(row[-1])
    return found


def asked(
    exact: duckdb.DuckDBPyConnection, seed: int
) -> dict[str, list[tuple[float, float, float]]]:
    """Ask a default store all questions in turn; see `run`.

    Returns:
        For each answer its median error, its median half-width and its share inside.
    """
    con = sparseq.create(
        None,
        {"orders": SOURCE},
        user="customer_id",
        time="date",
        kappa=KAPPA,
        seed=seed,
        bounds={"amount": (0.0, TOP)},
        keys={"quantity": list(range(1, 7))},
    )
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in QUESTIONS}
    for i in range(TIMES * len(QUESTIONS)):
        name = list(QUESTIONS)[i % len(QUESTIONS)]
        sql = question(name)
        rows = exact.execute(sql).fetchall()
        truth = {str(row[0])[:10] if len(row) > 1 else "": float(row[-1]) for row in rows}
        true = np.array(list(truth.values()))
        value, low, high = by_group(con.sql(sql, fresh=True).rows(), tuple(truth))
        found[name].append(
            (
                float(np.median(np.abs(value - true))),
                float(np.median(high - low)) / 2,
                float(np.mean((low <= true) & (true <= high))),
            )
        )
    return found


def run() -> Iterator[dict[str, Any]]:
    """Yield for each question its error, half-width and width beside the plan by hand."""
    exact = duckdb.connect()
    exact.execute(f"CREATE VIEW orders AS FROM '{SOURCE}'")
    sessions = [asked(exact, seed) for seed in SEEDS]
    for name in QUESTIONS:
        ours = [answer for session in sessions for answer in session[name]]
        error, half = by_hand(contributions(exact, name), TIMES * len(QUESTIONS))
        figures = {
            "error": statistics.median(answer[0] for answer in ours),
            "error_by_hand": error,
            "half_width": statistics.median(answer[1] for answer in ours),
            "half_width_by_hand": half,
            "inside": statistics.mean(answer[2] for answer in ours),
        }
        for what, figure in figures.items():
            yield {
                "name": f"everybody.{name.replace(' ', '_')}.{what}",
                "figure": figure,
                "unit": "" if what == "inside" else "of the answer",
                "limit": None,
                "ok": True,
            }
