"""Imports what commands import when they need it, so that forked children need not."""

import importlib
import pkgutil

import mpmath  # noqa: F401
import pandas  # noqa: F401 - DuckDB imports it
import pyarrow.compute
import pyarrow.parquet  # noqa: F401
import scipy.special  # noqa: F401

import sparseq

for module in pkgutil.walk_packages(sparseq.__path__, "sparseq."):
    if module.name.split(".")[1] not in ("__main__", "compiled", "training"):
        importlib.import_module(module.name)
