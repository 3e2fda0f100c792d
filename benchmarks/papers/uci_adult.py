"""The Adult data (Census income, 1994; Kohavi 1996) as public facts and arrays.

The files are adult.data and adult.test, as they are or gzipped, from the UCI Machine Learning
Repository: https://archive.ics.uci.edu/dataset/2/adult. They are not part of this project.

The possible values of a column are public: they are in the data's description (adult.names). The
edges of numbers are round numbers, chosen without looking at the data.
"""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education_num",
    "marital_status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital_gain",
    "capital_loss",
    "hours_per_week",
    "native_country",
    "income",
)

KEYS: dict[str, tuple[str, ...]] = {
    "workclass": (
        "Private",
        "Self-emp-not-inc",
        "Self-emp-inc",
        "Federal-gov",
        "Local-gov",
        "State-gov",
        "Without-pay",
        "Never-worked",
    ),
    "marital_status": (
        "Married-civ-spouse",
        "Divorced",
        "Never-married",
        "Separated",
        "Widowed",
        "Married-spouse-absent",
        "Married-AF-spouse",
    ),
    "occupation": (
        "Tech-support",
        "Craft-repair",
        "Other-service",
        "Sales",
        "Exec-managerial",
        "Prof-specialty",
        "Handlers-cleaners",
        "Machine-op-inspct",
        "Adm-clerical",
        "Farming-fishing",
        "Transport-moving",
        "Priv-house-serv",
        "Protective-serv",
        "Armed-Forces",
    ),
    "relationship": (
        "Wife",
        "Own-child",
        "Husband",
        "Not-in-family",
        "Other-relative",
        "Unmarried",
    ),
    "race": ("White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", "Black"),
    "sex": ("Female", "Male"),
}
EDGES: dict[str, tuple[float, ...]] = {
    "age": (20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70),
    "education_num": tuple(range(2, 17)),
    "capital_gain": (1, 3000, 5000, 7000, 10000, 15000, 50000),
    "capital_loss": (1, 1500, 1750, 2000, 2250, 2500),
    "hours_per_week": (20, 30, 35, 40, 45, 50, 60),
}


def load(folder: Path, name: str) -> dict[str, list[str]]:
    """Return the columns of adult.data or adult.test.

    Raises:
        FileNotFoundError: The file isn't there; the message says where it comes from.
    """
    path = next((p for p in (folder / f"{name}.gz", folder / name) if p.is_file()), None)
    if path is None:
        raise FileNotFoundError(
            f"there is no {name} or {name}.gz in {folder}; it comes from "
            "https://archive.ics.uci.edu/dataset/2/adult"
        )
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    rows = [[cell.strip() for cell in row] for row in csv.reader(text.splitlines())]
    rows = [row for row in rows if len(row) == len(COLUMNS)]
    return {name: [row[i] for row in rows] for i, name in enumerate(COLUMNS)}


def arrays(columns: dict[str, list[str]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return features, every one 0 or 1, and the target: whether income is above 50K."""
    parts = []
    for name, keys in KEYS.items():
        parts.append(np.array(columns[name])[:, None] == np.array(keys))
    for name, edges in EDGES.items():
        place = np.digitize(np.array(columns[name], float), edges)
        parts.append(place[:, None] == np.arange(len(edges) + 1))
    parts.append(np.array(columns["native_country"])[:, None] == np.array(["United-States"]))
    target = np.array([value.startswith(">50K") for value in columns["income"]], float)
    return np.hstack(parts).astype(np.float64), target
