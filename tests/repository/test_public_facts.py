"""What lowering, pricing and explaining read is public: no module of theirs can reach a row.

mypy refuses a `Private[T]` where a public fact is expected. These tests close the ways around it:
which modules such code imports, which modules make public facts, and which take private values out.
"""

from __future__ import annotations

import ast
import copy
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from sparseq.base.private import Private

ROOT = Path(__file__).parents[2]
SOURCES = {
    str(path.relative_to(ROOT)): path.read_text("utf-8")
    for path in sorted((ROOT / "sparseq").rglob("*.py"))
}

PUBLIC = (
    "sparseq/accounting/",
    "sparseq/language/",
    "sparseq/mechanisms/",
    "sparseq/question/",
    "sparseq/released/",
    "sparseq/sql/",
    "sparseq/store/bound_questions.py",
    "sparseq/store/explain.py",
    "sparseq/store/whole_price.py",
    "sparseq/stream/expected_width.py",
    "sparseq/stream/faded_weights.py",
    "sparseq/stream/full_payer.py",
    "sparseq/stream/full_weight.py",
    "sparseq/stream/joint_unit.py",
    "sparseq/stream/life_course.py",
    "sparseq/stream/parent_pilots.py",
    "sparseq/stream/part_price.py",
    "sparseq/stream/pilot_noise.py",
    "sparseq/stream/public_stream.py",
    "sparseq/stream/question.py",
    "sparseq/stream/shared_pilots.py",
    "sparseq/stream/weighted_parts.py",
    "sparseq/stream/question_price.py",
    "sparseq/stream/stream_progress.py",
)
"""Folders and modules that lower, price, explain and choose a path."""
PRIVATE = (
    "duckdb",
    "sparseq.base._duckdb",
    "sparseq.base.private",
    "sparseq.engine",
    "sparseq.lake",
    "sparseq.networks",
    "sparseq.ledger",
    "sparseq.load",
    "sparseq.series",
    "sparseq.server",
    "sparseq.training",
    "sparseq.store._duckdb",
    "sparseq.store.backend",
    "sparseq.store.create",
    "sparseq.store.curator",
    "sparseq.store.population",
    "sparseq.store.receipt",
    "sparseq.store.store",
    "sparseq.stream.budget_part",
    "sparseq.stream.contributors",
    "sparseq.stream.draft",
    "sparseq.stream.participation.Participation",
    "sparseq.stream.partition_selection",
    "sparseq.stream.release_charges",
    "sparseq.stream.released_parts",
    "sparseq.stream.shared_pilot_releases",
    "sparseq.stream.side_reads",
    "sparseq.stream.step",
    "sparseq.stream.weighted_answer",
    "sparseq.stream.weighted_sums",
)
"""Modules, with those below, that hold private rows, accounts, or what holds them."""
IMPORTED = {
    ("sparseq/sql/public_database.py", "duckdb"): "a database of public tables, in memory",
    ("sparseq/sql/public_database.py", "sparseq.base._duckdb.connection.fetch_at_most"): "same",
    ("sparseq/sql/public_database.py", "sparseq.base._duckdb.connection.scratch"): "same",
    ("sparseq/stream/weighted_parts.py", "sparseq.engine.reduction.Index"): "a type of arrays",
    (
        "sparseq/stream/expected_width.py",
        "sparseq.stream.weighted_answer.measured",
    ): "measures a question without engine, ledger and noise, over numbers it makes up",
    ("sparseq/stream/expected_width.py", "sparseq.stream.weighted_sums.WeightedSums"): "same",
    ("sparseq/stream/expected_width.py", "sparseq.stream.weighted_answer.asked_parts"): "same",
    (
        "sparseq/store/explain.py",
        "sparseq.stream.weighted_answer.asked_parts",
    ): "parts of a question, by its text and options",
    ("sparseq/stream/question_price.py", "sparseq.stream.weighted_answer.asked_parts"): "same",
    (
        "sparseq/stream/question_price.py",
        "sparseq.stream.draft.most_units",
    ): "a function of a plan and its noise",
    ("sparseq/stream/full_payer.py", "sparseq.ledger.accounts.Ints"): "a type of arrays",
}
"""Imports that are allowed all the same, each with its reason."""

MAKERS = {
    "sparseq.question.catalog": (
        "AccountWindow",
        "Catalog",
        "Column",
        "KeyLink",
        "KnownBounds",
        "Table",
        "columns_of",
        "declare",
    ),
    "sparseq.sql.lowered_queries": ("Lowering",),
    "sparseq.stream.participation": ("Terms",),
    "sparseq.stream.faded_weights": ("with_tails",),
    "sparseq.stream.life_course": ("LifeCourse",),
    "sparseq.stream.parent_pilots": ("with_parent", "with_parent_again"),
    "sparseq.stream.stream_progress": ("Course",),
}
"""Names, by module, whose call makes a public fact."""
NAMES = frozenset(name for names in MAKERS.values() for name in names)
CHANGERS = {"with_column", "with_found", "with_table"}
"""Methods that make a public fact of another."""
CHANGED = {
    "Column": {"bounds", "found", "keys", "not_null", "owned", "type"},
    "Course": {"begun_with", "clock", "least", "parents", "tails"},
    "Table": {"columns", "found", "link", "row_key", "window"},
}
"""Fields, by type: `replace` with one of them makes a public fact where the type is imported."""
MADE = {
    "sparseq/cli/session.py": "shows one table of a catalogue",
    "sparseq/load/_duckdb/format_3_columns.py": "an upgrade of types",
    "sparseq/load/_duckdb/storage.py": "types and names that were declared",
    "sparseq/lake/_duckdb/key_file.py": "a table that was declared",
    "sparseq/lake/_duckdb/layout.py": "types and names that were declared",
    "sparseq/lake/lake_store.py": "the catalogue of a bucket, and the links that were declared",
    "sparseq/load/databases.py": "foreign keys that a database's schema declares",
    "sparseq/load/key_chain.py": "links that were declared",
    "sparseq/series/series_outlook.py": "the course of ticks to come, by the present one",
    "sparseq/question/catalog.py": "reads the stored catalogue, and adds keys that were released",
    "sparseq/sql/public_database.py": "no bounds are known where none are given",
    "sparseq/store/_duckdb/create_file.py": "what was declared at creation",
    "sparseq/store/store_draws.py": "what a draw has given everybody at least: released",
    "sparseq/store/store.py": "the stored catalogue and settings, and keys that were released",
    "sparseq/server/service.py": "lowers with the store's own public facts",
    "sparseq/stream/budget_part.py": "what a purpose was declared with",
    "sparseq/stream/question_price.py": "pilots that are not asked yet: zeros",
    "sparseq/stream/stream_progress.py": "the beginning of a course, by settings",
    "sparseq/stream/faded_weights.py": "pilots of faded weights, after their noise",
    "sparseq/stream/parent_pilots.py": "pilots of all rows, after their noise",
    "sparseq/stream/shared_pilot_releases.py": "pilots, after their noise",
}
"""Modules that make public facts, each with what it makes them of."""

TAKERS = ("inside", "for_curator")
TAKEN = {
    "sparseq/cli/plan.py": "plans over data that may be looked at",
    "sparseq/lake/": "reads and stores rows",
    "sparseq/load/_duckdb/erasure.py": "erases rows",
    "sparseq/load/_duckdb/storage.py": "stores rows",
    "sparseq/store/_duckdb/doctor.py": "the curator's log, for its checks",
    "sparseq/series/methods/": "what people contribute, before noise",
    "sparseq/series/watch_state.py": "what people contribute to an alarm, before noise",
    "sparseq/store/account_roots.py": "the roots of accounts, and proofs: the curator's",
    "sparseq/store/account_facts.py": "seals the rows of each account under a root: the curator's",
    "sparseq/store/_duckdb/file_backend.py": "adds up rows that came",
    "sparseq/store/curator.py": "the curator's tools",
    "sparseq/store/found_keys.py": "what people contribute to found keys, before noise",
    "sparseq/store/population.py": "the identifiers that a draw is for; the curator's erasure",
    "sparseq/store/store_draws.py": "the identifiers that a draw is for",
    "sparseq/store/receipt.py": "the curator's receipts",
    "sparseq/store/store.py": "answers of `ingest` and `curator_notes`: to the curator",
    "sparseq/stream/side_reads.py": "what people contribute, before noise",
    "sparseq/stream/step.py": "what people contribute, before noise",
    "sparseq/training/": "gradients, before noise; the curator's report",
}
"""Folders and modules that take private values out of their type, each with its reason."""


def imported(source: str) -> Iterator[str]:
    """Yield what a source imports, imports for types and in functions too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{name.name}" for name in node.names)


def private_imports(sources: Mapping[str, str]) -> set[tuple[str, str]]:
    """Return the imports of private modules in public ones."""
    return {
        (path, name)
        for path, source in sources.items()
        if path.startswith(PUBLIC)
        for name in imported(source)
        if any(name == one or name.startswith(f"{one}.") for one in PRIVATE)
    }


def makers(sources: Mapping[str, str]) -> set[str]:
    """Return the modules that make public facts, or make others of them."""
    return {path for path, source in sources.items() if _makes(path, source)}


def _makes(path: str, source: str) -> bool:
    if not any(name in source for name in (*NAMES, *CHANGERS)):  # what is parsed takes long
        return False
    own = path.removesuffix(".py").replace("/", ".")
    made = {name for module, names in MAKERS.items() if module == own for name in names}
    known = {f"{module}.{name}" for module, names in MAKERS.items() for name in names}
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            made |= {n.asname or n.name for n in node.names if f"{node.module}.{n.name}" in known}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Name(id=name) if name in made:
                return True
            case ast.Attribute(attr=name) if name in CHANGERS:
                return True
            case ast.Name(id="replace"):
                fields = {field for name in made for field in CHANGED.get(name, ())}
                if fields & {k.arg for k in node.keywords}:
                    return True
    return False


def takers(sources: Mapping[str, str]) -> set[str]:
    """Return the modules that take private values out of their type."""
    return {
        path
        for path, source in sources.items()
        if path != "sparseq/base/private.py" and any(name in source for name in TAKERS)
        for node in ast.walk(ast.parse(source))
        if _takes(node)
    }


def _takes(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=name), args=[], keywords=[]):
            return name in TAKERS
        case ast.Attribute(value=ast.Name(id="Private"), attr=name):
            return name in TAKERS
    return False


def test_public_modules_import_nothing_that_holds_rows_or_accounts() -> None:
    assert private_imports(SOURCES) == set(IMPORTED)


def test_public_facts_are_made_of_public_facts() -> None:
    assert makers(SOURCES) == set(MADE)


def test_private_values_are_taken_out_in_listed_places_only() -> None:
    found = takers(SOURCES)
    assert {path for path in found if not path.startswith(tuple(TAKEN))} == set()
    assert {place for place in TAKEN if not any(p.startswith(place) for p in found)} == set()


@pytest.mark.parametrize(
    ("path", "source", "found"),
    [
        ("sparseq/sql/a.py", "from sparseq.load._duckdb.storage import Storage", private_imports),
        ("sparseq/store/explain.py", "from sparseq.stream.step import Stream", private_imports),
        (
            "sparseq/accounting/a.py",
            "if TYPE_CHECKING:\n    from sparseq.ledger.accounts import Accounts",
            private_imports,
        ),
        ("sparseq/stream/question.py", "def f():\n    import duckdb", private_imports),
        (
            "sparseq/load/a.py",
            "from sparseq.question.catalog import Column as C\nC('s', 'VARCHAR')",
            makers,
        ),
        ("sparseq/engine/a.py", "table = table.with_column(few)", makers),
        (
            "sparseq/engine/a.py",
            "from sparseq.question.catalog import Column\nreplace(column, keys=found)",
            makers,
        ),
        ("sparseq/question/catalog.py", "Table('t', ())", makers),
        ("sparseq/server/a.py", "text = f'{backend.people().inside()}'", takers),
        ("sparseq/sql/a.py", "rows = map(Private.for_curator, counts)", takers),
    ],
)
def test_a_planted_violation_is_found(
    path: str, source: str, found: Callable[[Mapping[str, str]], set[object]]
) -> None:
    assert found({path: source})
    assert not found({path: "from sparseq.question.catalog import Column\n\ndef f(c: Column): ..."})


@pytest.mark.parametrize(
    "use",
    [
        bool,
        repr,
        str,
        hash,
        copy.copy,
        json.dumps,
        int,
        float,
        list,
        lambda value: value == 3,
        lambda value: value != 3,
        lambda value: value < 3,
        lambda value: value + 1,
        lambda value: f"{value}",
        lambda value: "".join([value]),
        lambda value: range(value),
        lambda value: value in [3],
        lambda value: {value: 1},
    ],
)
def test_a_private_value_cannot_be_used(use: Callable[[object], object]) -> None:
    with pytest.raises(TypeError):
        use(Private(3))
    assert (Private(3).inside(), Private(3).for_curator()) == (3, 3)


WRONG = """
from sparseq.base.private import Private
from sparseq.question.catalog import Column, Table
from sparseq.stream.public_stream import PublicStream

def f(rows: Private[int], keys: Private[tuple[str, ...]], stream: PublicStream) -> None:
    Column("s", "VARCHAR", keys=keys)
    Table("t", (), row_key=keys)
    range(rows)
    rows < 3
    stream.accounts
    stream.people
"""


@pytest.mark.deep
def test_mypy_refuses_private_values_in_public_facts(tmp_path: Path) -> None:
    """One error for each line of the function: a minute of mypy, which CI runs on the package."""
    (tmp_path / "wrong.py").write_text(WRONG)
    command = [sys.executable, "-m", "mypy", "--strict", str(tmp_path / "wrong.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    lines = [int(line.split(":")[1]) for line in done.stdout.splitlines() if "wrong.py:" in line]
    assert sorted(set(lines)) == [7, 8, 9, 10, 11, 12], done.stdout
