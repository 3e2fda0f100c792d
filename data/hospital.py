"""A hospital's visits, made up: for the tutorial.

    python -m data.hospital

Two years of some 78,000 visits each, of 40,000 patients in five wards: `visits-2023.csv` and
`visits-2024.csv`, as a hospital's system exports them: a title line, `;` between values, days
first, decimal commas, odd names of columns. The same seed gives the same bytes. Most patients come
once or twice, a few dozens of times; more come in winter, and fewer at weekends.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import numpy as np

PATIENTS, WEEKS, SEED = 40_000, 104, 5
FIRST = dt.date(2023, 1, 2)
"""A Monday. Each year here has 52 whole weeks."""
WARDS = {
    "Emergency": 0.33,
    "Surgery": 0.21,
    "Cardiology": 0.16,
    "Pediatrics": 0.15,
    "Oncology": 0.15,
}
HEADER = "Patient ID;Admission date;Ward;Cost (EUR);Age"


def visits(seed: int = SEED) -> Iterator[tuple[str, dt.date, str, float, int]]:
    """Yield visits by day: patient, day, ward, cost in euros, age in years.

    Example:
        >>> next(visits())[1]
        datetime.date(2023, 1, 2)
    """
    random = np.random.default_rng(seed)
    often = (random.random(PATIENTS) < 0.03) * random.integers(10, 60, PATIENTS)
    patient = np.repeat(np.arange(PATIENTS), random.geometric(0.35, PATIENTS) + often)
    day = np.arange(WEEKS * 7)
    weight = (1 + 0.2 * np.cos(2 * np.pi * day / 364)) * np.where(day % 7 >= 5, 0.7, 1.0)
    days = np.sort(random.choice(day, len(patient), p=weight / weight.sum()))
    random.shuffle(patient)
    wards = random.choice(list(WARDS), len(patient), p=list(WARDS.values()))
    cost = np.round(random.lognormal(6, 1, len(patient)), 2)
    age = random.integers(0, 95, PATIENTS)
    for who, at, ward, euros in zip(patient.tolist(), days.tolist(), wards, cost, strict=True):
        yield (f"P{100_000 + who}", FIRST + dt.timedelta(at), ward, euros, int(age[who]))


def write(folder: Path) -> None:
    """Write both exports into a folder."""
    second = FIRST + dt.timedelta(weeks=WEEKS // 2)
    lines: dict[str, list[str]] = {"visits-2023.csv": [], "visits-2024.csv": []}
    for who, day, ward, cost, age in visits():
        euros = f"{cost:.2f}".replace(".", ",")
        line = f"{who};{day:%d.%m.%Y};{ward};{euros};{age}"
        lines["visits-2023.csv" if day < second else "visits-2024.csv"].append(line)
    for name, year in lines.items():
        title = f"Visits, printed for the board ({len(year)} lines)"
        (folder / name).write_text("\n".join([title, HEADER, *year]) + "\n", "utf-8")


if __name__ == "__main__":
    write(Path())
