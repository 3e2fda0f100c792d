"""sparseq: differentially private answers to an endless, adaptive stream of queries.

    con = sparseq.create("shop.sparseq", "data/cdnow.parquet", user="customer_id")
    con.sql("SELECT count(DISTINCT customer_id) AS buyers FROM cdnow WHERE date = '1997-03-01'")

Every user has an account; every query costs each user the squared norm of what that user really
contributes (Feldman & Zrnic 2021, Algorithm 2), and whoever has little left counts for less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparseq.errors import (
    DataError,
    ParameterError,
    QueryRefused,
    ServerError,
    SparseqError,
    StoreError,
    StoreInUse,
)
from sparseq.facade import lazy
from sparseq.version import __version__ as __version__

if TYPE_CHECKING:
    from sparseq._duckdb.backup import backup
    from sparseq._duckdb.upgrade import upgrade
    from sparseq.answer import Answer
    from sparseq.files import connect, create
    from sparseq.ledger.purposes import Purpose
    from sparseq.ledger.questions import Questions
    from sparseq.remote import Remote
    from sparseq.sql.polars_question import Aggregation, Events
    from sparseq.store import Store

__all__ = [
    "Aggregation",
    "Answer",
    "DataError",
    "Events",
    "ParameterError",
    "Purpose",
    "QueryRefused",
    "Questions",
    "Remote",
    "ServerError",
    "SparseqError",
    "Store",
    "StoreError",
    "StoreInUse",
    "backup",
    "connect",
    "create",
    "upgrade",
]
__getattr__ = lazy(
    __name__,
    {
        "Aggregation": "sparseq.sql.polars_question",
        "Answer": "sparseq.answer",
        "Events": "sparseq.sql.polars_question",
        "Purpose": "sparseq.ledger.purposes",
        "Questions": "sparseq.ledger.questions",
        "Remote": "sparseq.remote",
        "Store": "sparseq.store",
        "backup": "sparseq._duckdb.backup",
        "connect": "sparseq.files",
        "create": "sparseq.files",
        "upgrade": "sparseq._duckdb.upgrade",
    },
)
