"""A folder of exports as two systems of a hospital write them: for docs/reports.md.

    python -m data.exports

Visits by month in Latin-1, with `;`, two lines of titles, headers that are no names, days that
come first and decimal commas. January is there twice, and each month begins with the last visits
of the month before. The laboratory writes JSON with objects in objects, and lists. The people are
made up, and are the same everywhere.
"""

from __future__ import annotations

import datetime as dt
import json
import random
from pathlib import Path

SERVICES = ("Urgences", "Chirurgie", "Gynécologie", "Orthopédie")
TITLES = "Hôpital Saint-Luc\nVisites;;;;\n\n"
HEADER = "N° visite;N° patient;Date d'entrée;Service;Coût (EUR)\n"
TESTS = ("CRP", "HbA1c")
PEOPLE, A_MONTH, TWICE = 6_000, 5_000, 40


def write(folder: Path) -> tuple[int, int]:
    """Write the files into a folder; return how many visits and how many tests there were."""
    random_numbers = random.Random(20240101)
    months = [
        [_visit(random_numbers, month * A_MONTH + k, month + 1) for k in range(A_MONTH)]
        for month in range(3)
    ]
    for month, visits in enumerate(months):
        before = months[month - 1][-TWICE:] if month else []
        text = TITLES + HEADER + "".join(";".join(visit) + "\n" for visit in [*before, *visits])
        data = text.replace("\n", "\r\n").encode("latin-1")
        (folder / f"visites-2024-{month + 1:02}.csv").write_bytes(data)
        if month == 0:
            (folder / "visites-2024-01 (copie).csv").write_bytes(data)
    tests = [v for visits in months for v in visits if random_numbers.random() < 0.4]
    with (folder / "labo.jsonl").open("w", encoding="utf-8") as file:
        for number, patient, day, *_ in tests:
            test = {
                "name": random_numbers.choice(TESTS),
                "value": random_numbers.randrange(90) / 10,
            }
            row = {"no": int(number), "patient": {"no": patient}, "day": day, "test": test}
            file.write(json.dumps({**row, "codes": ["J45", "I10"]}) + "\n")
    return 3 * A_MONTH, len(tests)


def _visit(random_numbers: random.Random, number: int, month: int) -> tuple[str, ...]:
    day = dt.date(2024, month, 1) + dt.timedelta(random_numbers.randrange(28))
    cents = min(int(random_numbers.lognormvariate(10, 0.8)), 150_000)
    service = random_numbers.choices(SERVICES, (4, 3, 2, 2))[0]
    patient = f"P{random_numbers.randrange(PEOPLE):04}"
    return str(number), patient, f"{day:%d/%m/%Y}", service, f"{cents // 100},{cents % 100:02}"


if __name__ == "__main__":
    Path("exports").mkdir(exist_ok=True)
    print("exports: {:,} visits, {:,} tests".format(*write(Path("exports"))))
