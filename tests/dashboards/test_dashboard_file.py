"""The file of a dashboard."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from sparseq.base.errors import NotSql, ParameterError
from sparseq.dashboards.dashboard_file import Dashboard

PANEL = '[[panel]]\ntitle = "A"\nsql = "SELECT count(*) AS n FROM t WHERE day = :yesterday"\n'


def read(folder: Path, text: str) -> Dashboard:
    path = folder / "shop.toml"
    path.write_text(text)
    return Dashboard.read(path)


def test_a_file_has_a_name_a_title_and_panels(tmp_path: Path) -> None:
    found = read(tmp_path, f'title = "The shop"\n{PANEL}')
    assert (found.name, found.title, len(found.panels)) == ("shop", "The shop", 1)
    assert found.panels[0].sql(dt.date(2024, 3, 1)).endswith("day = DATE '2024-02-29'")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has no panel"),
        ("title = 3 =", "is not TOML"),
        (f'titel = "x"\n{PANEL}', "nothing is said of a dashboard by titel"),
        (PANEL + PANEL, "two panels are called 'A'"),
        ('[[panel]]\ntitle = "A"\n', "needs title and sql"),
        ('[[panel]]\ntitle = "A"\nsql = "SELECT 1"\ncolour = "red"\n', "by colour"),
        ('panel = ["x"]', "is not a table"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ParameterError, match=why):
        read(tmp_path, text)


def test_text_that_is_no_sql_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotSql):
        read(tmp_path, '[[panel]]\ntitle = "A"\nsql = "SELECT \'"\n')


def test_an_unknown_parameter_is_named(tmp_path: Path) -> None:
    found = read(tmp_path, PANEL.replace(":yesterday", ":dya"))
    with pytest.raises(ParameterError, match=":dya"):
        found.panels[0].sql(dt.date(2024, 3, 1))
