"""Measures of the code's structure: python -m checks.structure [--json] [--against COMMIT]

It counts in `sparseq/`:

    duckdb      modules that import DuckDB where they should not
    private     `x._name`, where x is not self or cls and no instance of the class around it
    cycles      cycles of modules that import each other, imports for types included
    folders     cycles of folders that import each other, counted likewise
    outward     imports of extensions by the core
    rulers      lines that divide a file into sections
    hidden      imports in functions, except those listed in LATE
    long        files of more than 950 lines, except those listed in LONG
    skips       lines that are kept from the formatter
    named       modules whose names end in -ing or -ed, except those listed in NAMED
    clauses     docstrings that begin with one of CLAUSES
    shreds      private functions of at most 3 lines that their module names once
    defaults    numbers of `base/defaults.py` that a similar name has elsewhere
    untested    modules of the core that no test names: neither a file of theirs in `tests/`, nor
                an import there, nor an example in a docstring
    files       in all
    lines       of code, comments and docstrings
    core        of these, without `pgwire/` and `papers/`

The exit code is 1 if a limit is passed. `--against` adds the counts of another commit. `--sizes`
counts lines of code instead, without blank lines, comments and docstrings: those of the core and of
each extension.
"""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import sys
import tarfile
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import click

from sparseq.base import defaults
from sparseq.pictures.tables import format_table

ROOT = Path(__file__).parent.parent
PACKAGE = "sparseq"
BEFORE = "5e940de"
"""The last commit of the first round."""
MOST_LINES = 950
UNTESTED = 90
"""Modules without a test that names them, of 465: other tests call them. No more may come."""
LIMITS = {
    "duckdb": 0,
    "private": 0,
    "cycles": 0,
    "folders": 0,
    "outward": 0,
    "rulers": 0,
    "hidden": 0,
    "long": 0,
    "skips": 0,
    "named": 0,
    "clauses": 0,
    "shreds": 234,
    "defaults": 0,
    "untested": UNTESTED,
}
"""The most that may be counted of each kind. There is no limit on files and lines."""
LATE: Mapping[str, str] = {
    "matplotlib": "optional, and slow to import",
    "xlsxwriter": "optional",
    "numba": "optional, and slow to import",
    "torch": "optional, and slow to import",
    "pandas": "optional",
    "pyspark": "optional",
    "deltalake": "optional, and slow to import",
    "deltalake.transaction": "likewise",
    "scipy": "slow to import, and most commands never need it",
    "sparseq.sql.lowered_queries": "needs sqlglot, slow to import; who reads back never does",
    "sparseq.sql.key_domains": "likewise",
    "sparseq.sql.polars_question": "likewise",
    "sparseq.sql.parameters": "likewise",
    "sparseq.sql.suggestions": "likewise; only refusals need it",
    "sparseq.store.explain": "likewise",
    "sparseq.stream.weighted_answer": "slow to import; who reads back never does",
    "sparseq.stream.node_sums": "likewise",
    "sparseq.stream.question_price": "likewise",
    "sparseq.stream.expected_width": "likewise",
    "sparseq.stream.wish_price": "likewise",
    "mpmath": "slow to import, and rarely needed",
    "sparseq.load.load_rows": "readers of files; most commands read none",
    "sparseq.load.open_sources": "likewise",
    "sparseq.load._duckdb.load_tables": "likewise",
    "sparseq.load._duckdb.outside_keys": "likewise",
    "sparseq.load._duckdb.linked_rows": "likewise",
    "sparseq.load.content_hashes": "likewise",
    "sparseq.load.loaded_files": "likewise",
    "sparseq.engine._duckdb.engine": "who reads what is public evaluates nothing",
    "sparseq.store._duckdb.create_file": "likewise",
    "pyarrow.parquet": "slow to import, and few commands write such files",
    "sparseq.base._duckdb.connection": "needs DuckDB, which `--help` does not",
    "sparseq.ledger._duckdb.write_errors": "likewise",
    "polars": "slow to import, and most commands never need it",
    "sparseq.answers.answer_figures": "an answer is shown when somebody looks at it",
    "sparseq.answers.answer_texts": "likewise",
    "sparseq.answers.answer_exports": "likewise",
    "sparseq.lake.lake_store": "needs deltalake; `kind_at` is asked for every store",
    "sparseq.lake.doctor": "likewise",
    "sparseq.compiled.loops": "needs numba",
    "obstore": "optional, and most stores have no mark in a bucket",
    "sparseq.ledger._duckdb.mark": "likewise",
    "sparseq.ledger._duckdb.mark_object": "likewise",
    "concurrent.futures": "slow to import; only large inputs have two threads",
    "tomllib": "slow to import; only --config needs it",
    "sparseq.accounting.strategies": "slow to import; few purposes have one",
    "sparseq.pictures.image": "slow to import; only drawings need it",
    "sparseq.store.store_draws": "slow to import; only stores of a population draw",
    "sparseq.store.remote": "needs ssl, slow to import; only clients of servers do",
    "sparseq.server.job_file": "likewise",
    "sparseq.server.jobs": "a server without jobs needs neither monitor nor replay",
    "sparseq.server.operator_socket": "likewise",
    "sparseq.server.serve": "needs starlette and uvicorn, optional",
}
LONG: Mapping[str, str] = {}
NAMED = ("accounting", "compiled", "released", "training", "planning")
"""Words of the field that end so."""
CLAUSES = {"What", "Where", "Who", "Whom", "Whose", "How", "Which", "When", "Whether", "Why"}
"""A docstring begins with a verb or a noun, and not with a clause."""
USUAL = "sparseq/base/defaults.py"
AROUND = ("sparseq/pgwire/", "sparseq/papers/")
_NAMED_TUPLES = {"_replace", "_asdict", "_fields", "_make", "_exit"}  # and os._exit
TORCH = {"_version", "_BatchNorm"}
"""Names of torch without another: how often a tensor was written, and what all batch norms are."""
DUCKDB = (
    "/_duckdb/",
    "sparseq/load/",
    "sparseq/store/curator.py",
    "sparseq/sql/public_database.py",
)
"""Where DuckDB may be imported: backends, file formats, the curator's exact tools, and the twin of
a store that holds no person."""


@dataclass
class Census:
    """The counted places, each with its text."""

    duckdb: list[str] = field(default_factory=list)
    private: list[str] = field(default_factory=list)
    cycles: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    outward: list[str] = field(default_factory=list)
    rulers: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    long: list[str] = field(default_factory=list)
    skips: list[str] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    clauses: list[str] = field(default_factory=list)
    shreds: list[str] = field(default_factory=list)
    defaults: list[str] = field(default_factory=list)
    untested: list[str] = field(default_factory=list)
    files: int = 0
    lines: int = 0
    core: int = 0

    def numbers(self) -> dict[str, int]:
        """Return how many of each."""
        found = {name: len(value) for name, value in vars(self).items() if isinstance(value, list)}
        return found | {"files": self.files, "lines": self.lines, "core": self.core}


def counted(files: Mapping[str, str], tests: Mapping[str, str] | None = None) -> Census:
    """Count in Python files: path to text.

    Args:
        files: The package's files.
        tests: Those of its tests; None: `untested` stays empty.
    """
    sizes = {path: text.count("\n") for path, text in files.items()}
    core = sum(lines for path, lines in sizes.items() if not path.startswith(AROUND))
    found = Census(files=len(files), lines=sum(sizes.values()), core=core)
    graph: dict[str, set[str]] = {}
    modules = {_module(path) for path in files}
    for path, text in sorted(files.items()):
        tree = ast.parse(text)
        nodes = list(ast.walk(tree))
        here = _module(path)
        imports = list(_imports(nodes, here, path.endswith("__init__.py")))
        graph[here] = {m for names in imports for m in [_known(names.names, modules)] if m} - {here}
        if any(names.top == "duckdb" for names in imports) and not _may_import_duckdb(path):
            found.duckdb.append(path)
        found.hidden += [
            f"{path}:{names.line}: {names.top}"
            for names in imports
            if names.hidden and not any(f"{names.names[0]}.".startswith(f"{m}.") for m in LATE)
        ]
        found.private += [f"{path}:{line}: {text}" for line, text in _reached(tree)]
        if text.count("\n") > MOST_LINES and path not in LONG:
            found.long.append(f"{path}: {text.count(chr(10))} lines")
        skipped = (n for n, line in enumerate(text.splitlines(), 1) if "# fmt: " in line)
        found.skips += [f"{path}:{n}" for n in skipped]
        ruled = (n for n, line in enumerate(text.splitlines(), 1) if re.match(r"\s*# -- ", line))
        found.rulers += [f"{path}:{n}" for n in ruled]
        if here.endswith(("ing", "ed")) and here.rpartition(".")[2] not in NAMED:
            found.named.append(here)
        found.clauses += [f"{path}:{n}" for n, said in _docstrings(nodes) if _is_clause(said)]
        found.shreds += [f"{path}:{n}: {name}" for n, name in _used_once(nodes, text)]
        if path != USUAL:
            found.defaults += [f"{path}:{n}: {said}" for n, said in _again(nodes)]
    found.cycles = [" ↔ ".join(sorted(circle)) for circle in _circles(graph)]
    folders = folder_imports(graph)
    found.folders = [" ↔ ".join(sorted(circle)) for circle in _circles(folders)]
    outside = extensions_in(files)
    if tests is not None:
        found.untested = untested(files, tests)
    found.outward = [
        f"{one} → {other}"
        for one, others in sorted(folders.items())
        for other in sorted(others & outside)
        if one not in outside
    ]
    return found


def extensions_in(files: Iterable[str]) -> set[str]:
    """Return the folders of extensions."""
    return {path.split("/")[1] for path in files if path.endswith("/extension.py")}


def untested(files: Mapping[str, str], tests: Mapping[str, str]) -> list[str]:
    """Return the modules of the core that no test names, and that have no example.

    >>> files = {"sparseq/a/b.py": "", "sparseq/a/c.py": "", "sparseq/a/d.py": ">>> 1"}
    >>> untested(files, {"tests/a/test_e.py": "from sparseq.a import c"})
    ['sparseq/a/b.py']
    >>> untested(files, {"tests/a/test_b.py": "import sparseq.a.c"})
    []
    """
    outside = extensions_in(files) | {path.split("/")[1] for path in AROUND}
    named = {(path.split("/")[1], path.rpartition("/test_")[2]) for path in tests}
    imported = {
        name
        for text in tests.values()
        for found in _imports(list(ast.walk(ast.parse(text))), "", False)
        for name in found.names
    }
    return [
        path
        for path, text in sorted(files.items())
        if path.count("/") > 1
        and not path.endswith(("/__init__.py", "/__main__.py"))
        and path.split("/")[1] not in outside
        and (path.split("/")[1], path.rpartition("/")[2].lstrip("_")) not in named
        and _module(path) not in imported
        and ">>> " not in text
    ]


def code_lines(text: str) -> int:
    """Return how many lines of a Python file have code: no blank lines, comments, docstrings.

    >>> code_lines("x = [  # a list\\n\\n    1,\\n]\\n'Docs.'")
    3
    """
    lines = set[int]()
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped | {tokenize.ENDMARKER}:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines -= set(range(node.lineno, (node.end_lineno or 0) + 1))
    return len(lines)


def sizes(files: Mapping[str, str]) -> dict[str, int]:
    """Return the lines of code of the core, of each extension, and of all."""
    found = Counter({"core": 0})
    outside = {"lake", "networks", "papers", "pgwire", "server", "sgd"}
    for path, text in files.items():
        folder = path.split("/")[1]
        found[folder if folder in outside else "core"] += code_lines(text)
    return dict(sorted(found.items())) | {"all": found.total()}


def folder_imports(graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Return the imports between folders; modules that lie in no folder are left out.

    >>> folder_imports({"a.b.c": {"a.d", "a.e"}, "a.d": set(), "a.e.f": set(), "a.e": set()})
    {'b': {'e'}, 'e': set()}
    """
    folders = {module.split(".")[1] for module in graph if module.count(".") > 1}
    found: dict[str, set[str]] = {}
    for module, imported in graph.items():
        here, *others = (one.split(".")[1:2] for one in (module, *imported))
        if folders.issuperset(here) and here:
            names = {name for other in others for name in other} & folders
            found[here[0]] = found.get(here[0], set()) | names - set(here)
    return found


def _again(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield the names that are given, or compared with, a number that `USUAL` has for such a name.

    A name is that of a parameter, a field, a keyword or a key; its words decide.
    """
    for name, value in _named_values(nodes):
        number = value.value if isinstance(value, ast.Constant) else None
        words = {word: vars(defaults).get(word.upper()) for word in name.lower().split("_")}
        if type(number) in (int, float) and number in words.values():
            yield value.lineno, f"{name} {number}"


def _named_values(nodes: list[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    for node in nodes:
        match node:
            case ast.arguments():
                last = [*node.posonlyargs, *node.args][-len(node.defaults) :]
                yield from ((a.arg, v) for a, v in zip(last, node.defaults, strict=False))
                both = zip(node.kwonlyargs, node.kw_defaults, strict=True)
                yield from ((a.arg, v) for a, v in both if v is not None)
            case ast.keyword(arg=str(name), value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(name), value=ast.expr() as value):
                yield name, value
            case ast.Assign(targets=[ast.Name(name)], value=value):
                yield name, value
            case ast.Compare(left=ast.Name(name), comparators=[value]):
                yield name, value
            case ast.Compare(
                left=ast.Subscript(slice=ast.Constant(str(name))), comparators=[value]
            ):
                yield name, value
            case ast.Call(func=ast.Attribute(attr="epsilon"), args=[value]):
                yield "delta", value


def _docstrings(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of definitions and of assignments, with their lines."""
    for node in nodes:
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, text


def _is_clause(docstring: str) -> bool:
    return re.split(r"\W", docstring.strip(), maxsplit=1)[0] in CLAUSES


def _used_once(nodes: list[ast.AST], text: str) -> Iterator[tuple[int, str]]:
    """Yield the private functions of at most 3 lines that are named once after their definition."""
    words = Counter(re.findall(r"\w+", text))
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[ast.get_docstring(node) is not None :][:1]
            short = not first or node.body[-1].end_lineno - first[0].lineno < 3  # type: ignore[operator]
            if re.match("_[^_]", node.name) and words[node.name] == 2 and short:
                yield node.lineno, node.name


@dataclass(frozen=True)
class _Import:
    line: int
    names: tuple[str, ...]  # the longest first: a module, or what it is in
    hidden: bool

    @property
    def top(self) -> str:
        return self.names[0].split(".")[0]


def _module(path: str) -> str:
    name = path.removesuffix(".py").replace("/", ".")
    return name.removesuffix(".__init__")


def _imports(nodes: list[ast.AST], here: str, is_package: bool) -> Iterator[_Import]:
    """Yield each name that is imported."""
    inside = {
        id(node)
        for function in nodes
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in _statements(function)
    }
    for node in nodes:
        if isinstance(node, ast.Import):
            for name in node.names:
                yield _Import(node.lineno, (name.name,), id(node) in inside)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = here.split(".") if is_package else here.split(".")[:-1]
                up = package[: len(package) - node.level + 1]
                base = ".".join([*up, *([base] if base else [])])
            for name in node.names:
                yield _Import(node.lineno, (f"{base}.{name.name}", base), id(node) in inside)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements within one, at any depth; no expression has any."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):
            yield child
            yield from _statements(child)


def _known(names: tuple[str, ...], modules: set[str]) -> str | None:
    return next((name for name in names if name in modules), None)


def _may_import_duckdb(path: str) -> bool:
    return any(part in path for part in DUCKDB)


def _reached(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield private attributes of other objects."""
    for node, owners in _with_classes(tree, ()):
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_"):
            continue
        if node.attr.startswith("__") or node.attr in _NAMED_TUPLES:
            continue
        value = node.value
        if isinstance(value, ast.Name) and value.id in ("self", "cls"):
            continue
        if isinstance(value, ast.Call) and getattr(value.func, "id", "") == "super":
            continue
        if any(node.attr in owner for owner in owners) or node.attr in TORCH:
            continue
        yield node.lineno, ast.unparse(node)


def _with_classes(
    node: ast.AST, owners: tuple[set[str], ...]
) -> Iterator[tuple[ast.AST, tuple[set[str], ...]]]:
    """Yield all nodes, each with the names that the classes around it define."""
    waiting = [(node, owners)]
    while waiting:
        node, owners = waiting.pop()
        if isinstance(node, ast.ClassDef):
            owners = (*owners, _defined(node))
        yield node, owners
        waiting += [(child, owners) for child in ast.iter_child_nodes(node)][::-1]


def _defined(made: ast.ClassDef) -> set[str]:
    """Return the private names that a class defines: methods, attributes, and what self gets."""
    names = {made.name}
    for node in ast.walk(made):
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign | ast.AugAssign)
            else []
        )
        for target in targets:
            for part in ast.walk(target):
                if isinstance(part, ast.Name):
                    names.add(part.id)
                elif isinstance(part, ast.Attribute) and getattr(part.value, "id", "") == "self":
                    names.add(part.attr)
    return names


def _circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the strongly connected parts of more than one module (Tarjan 1972)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        number[module] = low[module] = len(number)
        stack.append(module)
        for other in sorted(graph.get(module, ())):
            if other not in number:
                visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], number[other])
        if low[module] == number[module]:
            at = stack.index(module)
            if len(stack) - at > 1:
                found.append(stack[at:])
            del stack[at:]

    sys.setrecursionlimit(10_000)
    for module in sorted(graph):
        if module not in number:
            visit(module)
    return found


def files_here(folder: str = PACKAGE) -> dict[str, str]:
    """Return the files of a folder as they are."""
    paths = sorted((ROOT / folder).rglob("*.py"))
    return {str(p.relative_to(ROOT)): p.read_text(encoding="utf-8") for p in paths}


def files_of(commit: str) -> dict[str, str]:
    """Return the package's files of a commit."""
    made = subprocess.run(
        ["git", "archive", commit, PACKAGE], cwd=ROOT, capture_output=True, check=True
    )
    files = {}
    with tarfile.open(fileobj=io.BytesIO(made.stdout)) as archive:
        for member in archive.getmembers():
            file = archive.extractfile(member) if member.name.endswith(".py") else None
            if file is not None:
                files[member.name] = file.read().decode()
    return files


@click.command()
@click.option("--json", "as_json", is_flag=True, help="End with one JSON object.")
@click.option("--against", default=BEFORE, help="A commit to count as well; '' for none.")
@click.option("--list", "name", default="", help="Show each of one kind.")
@click.option("--sizes", "sized", is_flag=True, help="Count lines of code, by part.")
def main(as_json: bool, against: str, name: str, sized: bool) -> None:
    """Count what makes code hard to change."""
    if sized:
        now, then = sizes(files_here()), sizes(files_of(against)) if against else {}
        parts = [[part, f"{now[part]:,}", f"{then.get(part, 0):,}"] for part in now]
        click.echo(format_table(["code", "here", against], parts, list("lrr")))
        return
    here = counted(files_here(), files_here("tests"))
    before = counted(files_of(against)).numbers() if against else {}
    if name:
        click.echo("\n".join(getattr(here, name)))
    rows = [
        [kind, f"{number:,}", f"{before[kind]:,}" if before else "", str(LIMITS.get(kind, ""))]
        for kind, number in here.numbers().items()
    ]
    click.echo(format_table(["", "here", against, "at most"], rows, list("lrrr")))
    passed = [kind for kind, number in here.numbers().items() if number > LIMITS.get(kind, number)]
    if as_json:
        click.echo(json.dumps({"here": here.numbers(), "before": before, "passed": passed}))
    sys.exit(bool(passed))


if __name__ == "__main__":
    main()
