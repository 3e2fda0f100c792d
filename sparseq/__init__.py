"""sparseq: differentially private answers to an endless, adaptive stream of queries.

    con = sparseq.create("shop.sparseq", "data/cdnow.parquet", user="customer_id")
    con.sql("SELECT count(DISTINCT customer_id) AS buyers FROM cdnow WHERE date = '1997-03-01'")

Every user has an account; every query costs each user the squared norm of what that user really
contributes (Feldman & Zrnic 2021, Algorithm 2). A user with little left has a smaller weight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparseq.base import former_names
from sparseq.base.errors import (
    DataError,
    ParameterError,
    QueryRefused,
    ServerError,
    SparseqError,
    StoreError,
    StoreInUse,
)
from sparseq.base.lazy_names import lazy
from sparseq.version import __version__ as __version__

if TYPE_CHECKING:
    from sparseq.answers.answer import Answer
    from sparseq.ledger.purposes import Purpose
    from sparseq.ledger.question_settings import Questions
    from sparseq.sql.polars_question import Aggregation, Events
    from sparseq.store._duckdb.backup import backup
    from sparseq.store._duckdb.upgrade import upgrade
    from sparseq.store.ask import AnyStore
    from sparseq.store.create import connect, create
    from sparseq.store.population import create_population, population_facts
    from sparseq.store.remote import Remote
    from sparseq.store.store import Store

__all__ = [
    "Aggregation",
    "Answer",
    "AnyStore",
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
    "create_population",
    "population_facts",
    "upgrade",
]
__getattr__ = lazy(
    __name__,
    {
        "Aggregation": "sparseq.sql.polars_question",
        "Answer": "sparseq.answers.answer",
        "AnyStore": "sparseq.store.ask",
        "Events": "sparseq.sql.polars_question",
        "Purpose": "sparseq.ledger.purposes",
        "Questions": "sparseq.ledger.question_settings",
        "Remote": "sparseq.store.remote",
        "Store": "sparseq.store.store",
        "backup": "sparseq.store._duckdb.backup",
        "connect": "sparseq.store.create",
        "create": "sparseq.store.create",
        "create_population": "sparseq.store.population",
        "population_facts": "sparseq.store.population",
        "upgrade": "sparseq.store._duckdb.upgrade",
    },
)
former_names.known()
