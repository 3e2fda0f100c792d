"""`sparseq card`: the registry's fields, public facts alone, and what the curator adds."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import sparseq
from sparseq.cli.app import sparseq as command_line

REGISTRY = {
    "basic": "name data_curators intended_use description data_product_type data_product_region "
    "data_product_sector publication_date",
    "dp_variant": "variant_name data_domain unprotected_quantities",
    "privacy_loss": "privacy_unit privacy_unit_details privacy_parameters "
    "privacy_parameters_details",
    "deployment_model": "model_name actors release_type data_source_type access_type",
    "accounting": "composition post_processing",
    "implementation": "mechanisms justification",
}
"""Of https://github.com/opendp/deployments-registry-data, schemas/deployments-schema.yaml."""


def card(*words: str) -> str:
    done = CliRunner().invoke(command_line, ["card", *words])
    assert done.exit_code == 0, done.output
    return done.stdout


def made(path: Path, rows: dict[str, list[object]], **said: object) -> str:
    sparseq.create(path, {"visits": pa.table(rows)}, user="who", **said).close()
    return str(path)


CROWD = {"who": [1, 2, 3], "cost": [5.0, 6.0, 7.0]}
MORE = {"who": [1, 2, 3, 4], "cost": [5.0, 6.0, 7.0, 999.0]}


def test_it_has_the_fields_of_the_registry_and_the_words_that_it_takes(tmp_path: Path) -> None:
    facts = json.loads(card(made(tmp_path / "a", CROWD), "--format", "json"))
    for part, names in REGISTRY.items():
        assert set(names.split()) <= set(facts[part]), part
    assert facts["basic"]["data_product_type"] == "SQL queries"
    assert facts["dp_variant"]["variant_name"] == "Zero-concentrated DP"
    assert [facts["deployment_model"][k] for k in ("model_name", "access_type")] == [
        "Central",
        "Interactive",
    ]
    assert facts["privacy_loss"]["privacy_parameters"]["rho"] == 0.5


def test_no_row_is_in_it(tmp_path: Path) -> None:
    """The card of a store with one more person, who spent a lot, is the same to the last letter."""
    found = []
    for k, rows in enumerate((CROWD, MORE)):
        (tmp_path / str(k)).mkdir()
        found.append(card(made(tmp_path / str(k) / "shop", rows)))
    assert found[0] == found[1]
    assert "999" not in found[1]


def test_after_an_answer_it_says_so_and_when(tmp_path: Path) -> None:
    path = made(tmp_path / "a", CROWD)
    assert "publication date" not in card(path)
    with sparseq.connect(path) as con:
        con.sql("SELECT count(*) AS n FROM visits")
        day = con.releases()[0].released_at.date().isoformat()
    text = card(path)
    assert f"| publication date | {day} |" in text
    assert "| releases | 1 |" in text


def test_notes_are_in_it_and_what_is_not_said_is_left_out(tmp_path: Path) -> None:
    path = made(tmp_path / "a", CROWD, seed=1)
    text = card(path, "--note", "curator=A | hospital", "--note", "others=none")
    assert "| data curators | A \\| hospital |" in text
    assert "| other releases | none |" in text
    assert "intended use" not in text
    assert "its noise can be computed" in text
    done = CliRunner().invoke(command_line, ["card", path, "--note", "kurator=A"])
    assert (done.exit_code, "did you mean 'curator'" in done.output) == (2, True)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"window": "month", "time": "day"}, "all rows of one who in one month"),
        ({"purposes": [sparseq.Questions(watch=0.05)]}, "sparse vector"),
        ({"keys_delta": 1e-7}, "1e-7-approximate 0.5-zCDP"),
    ],
)
def test_other_promises_are_told_as_they_are(
    tmp_path: Path, said: dict[str, object], words: str
) -> None:
    """Stores of every other kind."""
    rows = CROWD | {"day": pa.array([0, 1, 2], pa.date32())}
    if "keys_delta" in said:
        said = {"purposes": [sparseq.Questions(keys_delta=1e-7)]}
    text = card(made(tmp_path / "a", rows, **said))
    assert words in text
    assert "right guess" in text
