"""Functions of truth values."""

from __future__ import annotations

from sparseq.language import types as T
from sparseq.language.functions.function import FunctionTable
from sparseq.language.types import Family

B = Family.BOOLEAN
FUNCTIONS = FunctionTable()
_add = FUNCTIONS.add


for _op in ("AND", "OR"):
    _add(
        _op.lower(),
        f"({{0}} {_op} {{1}})",
        (B, B),
        T.BOOLEAN,
        f"({{0}} {_op} {{1}})",
        "three-valued",
    )
_add("not", "(NOT {0})", (B,), T.BOOLEAN, "(NOT {0})", "NULL for NULL")
for _name in ("TRUE", "FALSE"):
    _add(
        f"is {_name.lower()}",
        f"({{0}} IS {_name})",
        (B,),
        T.BOOLEAN,
        f"({{0}} IS {_name})",
        "never NULL",
    )
