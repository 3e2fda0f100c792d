"""The script of the Adult table runs, on made-up files in the data's form."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from benchmarks.papers import adult, uci_adult
from benchmarks.papers.table import KEYS


def made_up(rows: int, seed: int, stop: str) -> str:
    """Rows in which years of education decide."""
    draw = random.Random(seed)
    lines = []
    for _ in range(rows):
        cell = {name: draw.choice([*keys, "?"]) for name, keys in uci_adult.KEYS.items()}
        years = draw.randint(1, 16)
        cell |= {
            "age": str(draw.randint(17, 90)),
            "fnlwgt": "77516",
            "education": "HS-grad",
            "education_num": str(years),
            "capital_gain": "0",
            "capital_loss": "0",
            "hours_per_week": "40",
            "native_country": "United-States",
            "income": (">50K" if years > 9 else "<=50K") + stop,
        }
        lines.append(", ".join(cell[name] for name in uci_adult.COLUMNS))
    return "\n".join(lines) + "\n\n"


def script(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(adult.main, ["--data", str(folder), *options])


def test_it_prints_its_row_beside_the_papers(tmp_path: Path) -> None:
    (tmp_path / "adult.data.gz").write_bytes(gzip.compress(made_up(4000, 1, "").encode()))
    (tmp_path / "adult.test").write_text("|1x3 Cross validator\n" + made_up(500, 2, "."))
    done = script(tmp_path, "--epsilon", "0.5", "--trials", "1", "--quick", "--format", "json")
    assert done.exit_code == 0, done.output
    row = json.loads(done.stdout)
    assert tuple(row) == KEYS
    assert (row["paper_plain"], row["paper_filtered"]) == (84.11, 84.18)
    assert row["accuracy_plain"] > 80  # half are right by chance
    assert row["accuracy_filtered"] > 80


def test_a_missing_file_is_named_and_where_it_comes_from(tmp_path: Path) -> None:
    done = script(tmp_path, "--quick")
    assert done.exit_code == 1
    assert "adult.data" in done.stderr
    assert "archive.ics.uci.edu" in done.stderr


@pytest.mark.parametrize("name", ["marital_status", "workclass"])
def test_domains_are_without_repeats(name: str) -> None:
    assert len(set(uci_adult.KEYS[name])) == len(uci_adult.KEYS[name])
