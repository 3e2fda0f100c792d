"""The templates of the pages: every text is escaped, once; no other HTML is made by hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("jinja2")
markup = pytest.importorskip("sparseq.server.http.markup")

PLACE = Path(markup.__file__).parent
HOSTILE = "</textarea><script>\"'&\x1b[31m"
SAFE = "&lt;/textarea&gt;&lt;script&gt;&#34;&#39;&amp;\\x1b[31m"


@pytest.mark.parametrize(
    ("template", "given"),
    [
        ("page", {"title": HOSTILE, "body": HOSTILE, "who": HOSTILE, "here": "/"}),
        ("problem", {"message": HOSTILE, "hint": HOSTILE}),
        ("explained", {"text": HOSTILE}),
        ("button", {"action": "/a", "name": HOSTILE, "text": HOSTILE, "label": HOSTILE}),
        ("new_token", {"name": HOSTILE, "secret": HOSTILE}),
        ("dashboard", {"tiles": [HOSTILE]}),
        ("series_verdict", {"lines": [HOSTILE]}),
        ("save_form", {"hidden": [("sql", HOSTILE)], "looks": [("chart", HOSTILE)], "place": 1}),
    ],
)
def test_a_text_is_escaped_wherever_it_stands(template: str, given: dict[str, object]) -> None:
    found = markup.render(template, **{"links": [("/", HOSTILE)], **given})
    assert SAFE in found
    assert "<script>" not in found.replace('<script src="/static/', "")
    assert "\x1b" not in found


def test_what_is_html_already_is_not_escaped_again() -> None:
    inner = markup.problem("a < b")
    assert inner in markup.render("wrong", problem=inner)
    assert markup.page("t", inner).count("a &lt; b") == 1


def test_lines_stay_lines_and_links_become_links() -> None:
    assert "SELECT 1\nFROM t" in markup.explain("SELECT 1\r\nFROM t")
    page = markup.one_series("s", [{"tick": "<1>", "release": 7}], markup.Markup("<figure>"))
    assert '<td>&lt;1&gt;</td><td><a href="/answers/7">7</a></td>' in page
    assert "<figure>" in page
    assert 'href="/ask?sql=a+%3C+%26+b"' in markup.render(
        "answer",
        number=1,
        query="a < & b",
        repeat="",
        table="",
        figure="",
        form="f",
        files="",
        of_other=False,
    )


def test_a_name_that_a_template_lacks_is_an_error() -> None:
    with pytest.raises(Exception, match="undefined"):
        markup.render("problem", message="a")


def test_the_server_writes_no_html_by_hand() -> None:
    """Elements are in templates; the table of an answer has one head changed."""
    for path in PLACE.parent.rglob("*.py"):
        text = path.read_text("utf-8").replace('"<th></th>", "<td></td>"', "")
        assert not re.search(r"</[a-z]+>|<[a-z]+ [a-z]+=", text), path.name


def test_every_template_is_used() -> None:
    code = "".join(path.read_text("utf-8") for path in PLACE.glob("*.py"))
    for path in (PLACE / "templates").iterdir():
        assert path.stem == "parts" or f'"{path.stem}"' in code, path.name
