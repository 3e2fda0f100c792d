"""Parsing of one SELECT: what stops it before any name is looked up."""

from __future__ import annotations

import pytest

from sparseq.base.errors import ParameterError
from sparseq.question.catalog import Catalog
from sparseq.sql import parse


def test_a_compiled_parser_is_refused_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each question would end in a TypeError of sqlglot."""
    assert not parse.COMPILED
    monkeypatch.setattr(parse, "COMPILED", True)
    with pytest.raises(ParameterError, match="sqlglotc is installed") as refused:
        parse.parse("SELECT 1", Catalog(()))
    assert "pip uninstall sqlglotc" in refused.value.hint
