"""A small store with seeded noise, for commands."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from command_runs import output

GOLDEN = Path(__file__).parent / "golden"
PAGES = ("home", "cart", "pay")


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two small tables about 40 people, and a public one; a seeded store of them."""
    folder = tmp_path_factory.mktemp("web")
    visits = ["who,day,page,seconds,late"]
    for k in range(400):
        late = str(k % 7 == 0).lower()
        visits.append(
            f"u{k * 13 % 41 % 40},2024-01-{k % 10 + 1:02},{PAGES[k % 3]},{k % 90}.5,{late}"
        )
    (folder / "visits.csv").write_text("\n".join(visits) + "\n")
    orders = ["who,total", *(f"u{k % 40},{k % 50}" for k in range(80))]
    (folder / "orders.csv").write_text("\n".join(orders) + "\n")
    (folder / "pages.csv").write_text("page,section\nhome,top\ncart,shop\npay,shop\n")
    output(
        "create",
        folder / "web.sparseq",
        f"visits={folder / 'visits.csv'}",
        f"orders={folder / 'orders.csv'}",
        "--user",
        "who",
        "--public",
        f"pages={folder / 'pages.csv'}",
        "--keys",
        "page=home,cart,pay",
        "--bounds",
        "seconds=0..90",
        "--for",
        "questions,in-or-out,counts=400",
        "--seed",
        "7",
    )
    return folder


@pytest.fixture
def store(folder: Path, tmp_path: Path) -> Path:
    """A fresh copy of the store, with nothing asked yet; the working folder is its own."""
    path = tmp_path / "web.sparseq"
    shutil.copy(folder / "web.sparseq", path)
    return path


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare text with a file in golden/; UPDATE_GOLDEN=1 writes it instead."""

    def check(name: str, text: str) -> None:
        file = GOLDEN / f"{name}.txt"
        if os.environ.get("UPDATE_GOLDEN"):
            file.write_text(text, encoding="utf-8")
        assert text == file.read_text(encoding="utf-8")

    return check
