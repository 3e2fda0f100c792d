"""Imports what commands import when they need it, so that forked children need not."""

import importlib
from pathlib import Path

import mpmath  # noqa: F401
import pandas  # noqa: F401 - DuckDB imports it
import pyarrow.compute
import pyarrow.parquet  # noqa: F401
import scipy.special  # noqa: F401

import sparseq

ROOT = Path(sparseq.__file__).parent
RARE = (
    "__main__",
    "compiled",
    "training",
    "server",
    "lake",
    "pgwire",
    "pictures.image",
    "series.planning",
    "monitor",
)

for path in sorted(ROOT.rglob("*.py")):
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    if not name.startswith((*RARE, "__init__", "cli.plan")):
        importlib.import_module(f"sparseq.{name}")
