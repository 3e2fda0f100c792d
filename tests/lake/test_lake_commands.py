"""Commands take a lake's address, and what they say can be typed again."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from sparseq.cli.app import sparseq

pytest.importorskip("deltalake", reason="pip install 'sparseq[lake]'")


def said(*words: str, code: int = 0) -> str:
    """What a command says on both streams."""
    done = CliRunner().invoke(sparseq, list(words))
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A lake in the folder that is the current one."""
    monkeypatch.chdir(tmp_path)
    rows = pa.table({"who": [1, 1, 2, 3, 3, 3], "kind": list("abbaab")})
    pq.write_table(rows, "visits.parquet")
    made = said("create", "lake://shop", "visits.parquet", "--user", "who", "--buckets", "2")
    assert "made lake://shop\n" in made
    (hint,) = re.findall(r"sparseq (sql .*)", made)
    assert "release   1" in re.sub(r" {3,}", "   ", said(*shlex.split(hint)))
    return "lake://shop"


def test_what_is_said_of_a_lake_has_its_address(shop: str) -> None:
    assert said("recover", shop) == "lake://shop is whole, up to release 1\n"
    assert said("upgrade", shop) == "lake://shop is of this version already\n"
    assert "there is no lake at lake://ship" in said("history", "lake://ship", code=4)
    assert said("token", "create", shop, "--name", "ada", "--role", "analyst").startswith("sq_")
