"""Random queries over the whole language, each in parts, so that a finding can be made smaller."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from checks.audit.forms import CONDITIONS, SOURCES, Form, T, V
from checks.language import BOOL, DATE, FLOAT, INT, NUMBER, TEXT, TIME, Function, Term
from checks.random_expressions import Expressions

Columns = dict[str, tuple[str, ...]]
T_COLUMNS: Columns = {
    INT: ("n", "k", "z", "u"),
    FLOAT: ("x", "a", "c"),
    TEXT: ("s", "w"),
    BOOL: ("b",),
    DATE: ("day",),
    TIME: ("at",),
}
V_COLUMNS: Columns = {INT: ("pages",), DATE: ("day",)}


@dataclass(frozen=True)
class Source:
    """FROM: a template with a `{}` for each term inside, and the columns that it gives."""

    template: str
    user: str
    columns: Columns
    parts: tuple[Term, ...] = ()

    @property
    def sql(self) -> str:
        """As SQL."""
        return self.template.format(*(p.sql for p in self.parts)) if self.parts else self.template


@dataclass(frozen=True)
class Question:
    """A query in parts; `scale`: in OPTIONS, where its sums have no public bounds."""

    source: Source
    aggregates: tuple[Term, ...]
    where: tuple[Term, ...] = ()
    keys: tuple[Term, ...] = ()
    tail: tuple[str, ...] = ()
    scale: float | None = None

    @property
    def sql(self) -> str:
        """The query as SQL."""
        head = "SELECT "
        if self.scale is not None:
            head += f"WITH DIFFERENTIAL_PRIVACY OPTIONS(scale => {self.scale:g}) "
        keys = [f"{k.sql} AS g{i}" for i, k in enumerate(self.keys)]
        found = [f"{a.sql} AS a{i}" for i, a in enumerate(self.aggregates)]
        text = f"{head}{', '.join(keys + found)} FROM {self.source.sql}"
        if self.where:
            text += " WHERE " + " AND ".join(f"({w.sql})" for w in self.where)
        if self.keys:
            text += " GROUP BY " + ", ".join(f"g{i}" for i in range(len(self.keys)))
        return " ".join([text, *self.tail])

    def smaller(self) -> Iterator[Question]:
        """Yield questions with less in them, the most first."""
        if self.tail:
            yield replace(self, tail=())
        for i in range(len(self.aggregates)):
            if len(self.aggregates) > 1:
                yield replace(self, aggregates=(self.aggregates[i],), tail=())
        if self.keys:
            yield replace(self, keys=(), tail=())
        for i in range(len(self.where)):
            yield replace(self, where=(*self.where[:i], *self.where[i + 1 :]))
        if self.source.sql != "t" and not self.source.parts:
            yield replace(self, source=Source("t", "who", T_COLUMNS))
        for name in ("aggregates", "where"):
            terms: tuple[Term, ...] = getattr(self, name)
            for i, term in enumerate(terms):
                for less in term.smaller():
                    yield replace(self, **{name: (*terms[:i], less, *terms[i + 1 :])})
        for i, term in enumerate(self.source.parts):
            for less in (*term.smaller(), Term(term.type, _LEAST[term.type])):
                if less.size < term.size or less.sql < term.sql:
                    parts = (*self.source.parts[:i], less, *self.source.parts[i + 1 :])
                    yield replace(self, source=replace(self.source, parts=parts))


_LEAST = {
    BOOL: "true",
    INT: "1",
    FLOAT: "1.0",
    TEXT: "'a'",
    DATE: "DATE '2024-01-02'",
    TIME: "TIMESTAMP '2024-01-02 03:04:05'",
}


@dataclass
class Questions:
    """Makes questions about the tables of `checks.audit.neighbours`.

    Attributes:
        plain: Questions about the one table t alone, with simple conditions, counts and sums.
    """

    rng: random.Random
    words: Sequence[Function]
    values: Mapping[str, Sequence[object]]
    depth: int = 3
    plain: bool = False
    expressions: Expressions = field(init=False)

    def __post_init__(self) -> None:
        self.expressions = Expressions(self.rng, self.words, self.values)

    def question(self) -> Question:
        """Return the next one."""
        rng = self.rng
        source = self._plain() if self.plain else rng.choice(_SOURCES)(self)
        many = (1, 1, 2) if self.plain else (0, 0, 1, 1, 1, 2)
        wheres = [self.term(BOOL, source) for _ in range(rng.choice(many))]
        if rng.random() < 0.3:
            wheres.append(self._simple(source))
        if rng.random() < 0.2 and source.sql == "t" and not self.plain:
            form = rng.choice(CONDITIONS)
            wheres.append(Term(BOOL, form.sql, self._holes(form)))
        if rng.random() < 0.1 and source.user:  # one person
            wheres.append(Term(BOOL, f"{source.user} = {rng.choice(self.values['who'])!r}"))
        keys, domains = self.keys(source)
        aggregates = tuple(self.aggregate(source) for _ in range(rng.choice((1, 1, 1, 2, 3))))
        if any("histogram" in a.template for a in aggregates):  # it stands alone
            aggregates = aggregates[:1]
        unbounded = any("sum({})" in a.template or "'NaN'" in a.template for a in aggregates)
        scale = rng.choice((1.0, 5.0, 1000.0)) if unbounded else None
        tail: tuple[str, ...] = ()
        if keys and rng.random() < 0.3:
            forms = (
                "ORDER BY a0 DESC",
                "HAVING a0 > 0",
                "ORDER BY g0 LIMIT 2",
                "HAVING count(*) > 10 ORDER BY a0",
            )
            tail = (rng.choice(forms),)
        return Question(source, aggregates, (*wheres, *domains), keys, tail, scale)

    def term(self, type: str, source: Source) -> Term:
        """Return a term over a source's columns."""
        return self.expressions.term(type, source.columns, self.rng.randint(1, self.depth))

    def _simple(self, source: Source) -> Term:
        """Return a column next to a constant, which an engine compares with its statistics."""
        type = self.rng.choice([t for t in (INT, FLOAT, DATE) if source.columns.get(t)])
        column = self.rng.choice(source.columns[type])
        operator = self.rng.choice((">", "<", "=", ">=", "<>"))
        return Term(BOOL, f"{column} {operator} {self.expressions.constant(type)}")

    def keys(self, source: Source) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
        """Return group keys, and the conditions that give them public values."""
        rng = self.rng
        if rng.random() < 0.5:
            return (), ()
        choices: list[tuple[Term, str]] = [
            (Term(TEXT, "CASE WHEN {} THEN 'yes' ELSE 'no' END", (self.term(BOOL, source),)), ""),
            (self.term(BOOL, source), ""),
        ]
        for column in source.columns.get(INT, ()):
            some = ", ".join(dict.fromkeys(self.expressions.constant(INT) for _ in range(3)))
            choices += [
                (Term(INT, column), f"{column} IN ({some})"),
                (Term(INT, column), f"{column} BETWEEN 0 AND 4"),
            ]
        for column in source.columns.get(TEXT, ()):
            some = ", ".join(dict.fromkeys(self.expressions.constant(TEXT) for _ in range(3)))
            choices.append((Term(TEXT, column), f"{column} IN ({some})"))
        for column in source.columns.get(DATE, ()):
            days = f"{column} BETWEEN '2024-01-01' AND '2024-01-09'"
            choices += [(Term(DATE, column), days), (Term(INT, f"month({column})"), "")]
            choices.append((Term(DATE, f"date_trunc('month', {column})"), days))
        for column in source.columns.get(BOOL, ()):
            choices.append((Term(BOOL, column), ""))
        chosen = [rng.choice(choices) for _ in range(rng.choice((1, 1, 1, 2)))]
        return (
            tuple(k for k, _ in chosen),
            tuple(Term(BOOL, d) for d in dict.fromkeys(d for _, d in chosen) if d),
        )

    def aggregate(self, source: Source) -> Term:
        """Return an aggregate over a source's rows."""
        rng = self.rng
        made = rng.choice(_AGGREGATES[:7] if self.plain else _AGGREGATES)
        types, template = made
        if "who" in template:
            if not source.user:
                types, template = (), "count(*)"
            template = template.replace("who", source.user)
        parts = tuple(self.term(t, source) for t in types)
        if rng.random() < 0.2:
            return Term(
                "aggregate", template + " FILTER (WHERE {})", (*parts, self.term(BOOL, source))
            )
        return Term("aggregate", template, parts)

    # -- sources -----------------------------------------------------------------------------------

    def _plain(self) -> Source:
        return Source("t", "who", T_COLUMNS)

    def _visits(self) -> Source:
        return Source("v", "who", V_COLUMNS)

    def _with_public(self) -> Source:
        kind = self.rng.choice(("JOIN", "LEFT JOIN"))
        on = self.rng.choice(("t.k = p.k", "t.k = p.k AND p.weight > t.x", "p.label = t.s"))
        columns = _qualified("t", T_COLUMNS) | {TEXT: ("t.s", "t.w", "p.label")}
        columns[FLOAT] = ("t.x", "t.a", "p.weight")
        return Source(f"t {kind} p ON {on}", "t.who", columns)

    def _with_visits(self) -> Source:
        kind = self.rng.choice(("JOIN", "LEFT JOIN"))
        on = self.rng.choice(("", " AND t.day >= v.day", " AND v.pages > t.n"))
        columns = _qualified("t", T_COLUMNS)
        columns[INT] = ("t.n", "t.k", "v.pages")
        return Source(f"t {kind} v ON t.who = v.who{on}", "t.who", columns)

    def _with_itself(self) -> Source:
        on = self.rng.choice(("a.k = c.k", "a.n < c.n", "a.day = c.day"))
        columns = {INT: ("a.n", "c.k"), FLOAT: ("a.x", "c.x"), DATE: ("c.day",), TEXT: ("a.s",)}
        return Source(f"t a JOIN t c ON a.who = c.who AND {on}", "a.who", columns)

    def _grouped(self) -> Source:
        inner = Source("t", "who", T_COLUMNS)
        key = self.rng.choice(("k", "s", "day", "b"))
        type = {"k": INT, "s": TEXT, "day": DATE, "b": BOOL}[key]
        columns: Columns = {INT: ("c", "mn", "ds"), FLOAT: ("sm", "av", "mx"), BOOL: ("bo",)}
        columns[type] = (*columns.get(type, ()), key)
        return Source(
            f"(SELECT who, {key}, count(*) AS c, sum({{}}) AS sm, avg({{}}) AS av, max({{}}) AS mx,"
            " min({}) AS mn, bool_or({}) AS bo, count(DISTINCT {}) AS ds "
            f"FROM t WHERE {{}} GROUP BY who, {key}) AS i",
            "who",
            columns,
            (
                self.term(NUMBER, inner),
                self.term(FLOAT, inner),
                self.term(FLOAT, inner),
                self.term(INT, inner),
                self.term(BOOL, inner),
                self.term(TEXT, inner),
                self.term(BOOL, inner),
            ),
        )

    def _windowed(self) -> Source:
        inner = Source("t", "who", T_COLUMNS)
        window = self.rng.choice(
            (
                "row_number() OVER (PARTITION BY who ORDER BY at, n)",
                "rank() OVER (PARTITION BY who, k ORDER BY day)",
                "lag(n) OVER (PARTITION BY who ORDER BY at)",
                "lead(n, 2) OVER (PARTITION BY who ORDER BY x DESC)",
                "count(s) OVER (PARTITION BY who ORDER BY day)",
                "max(n) OVER (PARTITION BY who ORDER BY n ROWS BETWEEN 1 PRECEDING AND "
                "1 FOLLOWING)",
            )
        )
        return Source(
            f"(SELECT who, {{}} AS e, n, k, s, day, {window} AS r FROM t WHERE {{}}) AS i",
            "who",
            {INT: ("n", "k", "r"), FLOAT: ("e",), TEXT: ("s",), DATE: ("day",)},
            (self.term(FLOAT, inner), self.term(BOOL, inner)),
        )

    def _distinct(self) -> Source:
        inner = Source("t", "who", T_COLUMNS)
        return Source(
            "(SELECT DISTINCT who, k, {} AS e, s FROM t) AS i",
            "who",
            {INT: ("k", "e"), TEXT: ("s",)},
            (self.term(INT, inner),),
        )

    def _formed(self) -> Source:
        form = self.rng.choice(SOURCES)
        return Source(form.sql, form.user, dict(form.columns), self._holes(form))

    def _holes(self, form: Form) -> tuple[Term, ...]:
        tables = {T: T_COLUMNS, V: V_COLUMNS, "v.": _qualified("v", V_COLUMNS)}
        return tuple(self.term(type, Source("", "", tables[of])) for type, of in form.holes)

    def _redefined(self) -> Source:
        inner = Source("t", "who", T_COLUMNS)
        return Source(
            "(SELECT who, k AS s, {} AS x, {} AS n, day AS at FROM t) AS i",
            "who",
            {INT: ("n", "s"), FLOAT: ("x",), DATE: ("at",)},
            (self.term(FLOAT, inner), self.term(INT, inner)),
        )


def _qualified(alias: str, columns: Columns) -> Columns:
    return {t: tuple(f"{alias}.{c}" for c in names) for t, names in columns.items()}


_AGGREGATES: tuple[tuple[tuple[str, ...], str], ...] = (
    ((), "count(*)"),
    ((NUMBER,), "count({})"),
    ((BOOL,), "countif({})"),
    ((), "count(DISTINCT who)"),
    ((BOOL,), "count(DISTINCT CASE WHEN {} THEN who END)"),
    ((NUMBER,), "sum(least(greatest({}, -5), 5))"),
    ((INT,), "sum(least(greatest({}, 0), 9))"),
    ((NUMBER,), "sum({})"),
    ((NUMBER,), "avg(least(greatest({}, 0), 100))"),
    ((FLOAT,), "stddev(least(greatest({}, 0), 10))"),
    ((NUMBER,), "histogram({}, [0, 1, 10, 100])"),
    ((FLOAT, NUMBER), "corr(least(greatest({}, 0), 10), least(greatest({}, -5), 5))"),
    ((FLOAT, INT), "regr_slope(least(greatest({}, 0), 9), least(greatest({}, 0), 7))"),
    ((FLOAT,), "sum(coalesce(nullif(least(greatest({}, 0), 9), 9), CAST('NaN' AS DOUBLE)))"),
    ((FLOAT,), "median({}, [0, 1, 2, 50])"),
    ((NUMBER,), "quantile({}, 0.9, [-10, 0, 10, 1000])"),
)
_SOURCES = (
    Questions._plain,
    Questions._plain,
    Questions._plain,
    Questions._visits,
    Questions._with_public,
    Questions._with_visits,
    Questions._with_itself,
    Questions._grouped,
    Questions._windowed,
    Questions._distinct,
    Questions._redefined,
    Questions._formed,
    Questions._formed,
    Questions._formed,
    Questions._formed,
)
