"""`create` and `ingest` make stores from files, say what they made, and leave nothing half done."""

from __future__ import annotations

import inspect
import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_runs import output, run
from sampled import one_in

import sparseq
from sparseq.cli.create import create
from sparseq.ledger.pots import Pot
from sparseq.ledger.purposes import Purpose


def test_says_what_was_made(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    golden: Callable[[str, str], None],
) -> None:
    monkeypatch.chdir(tmp_path)
    text = output(
        "create",
        "web.sparseq",
        folder / "visits.csv",
        f"orders={folder / 'orders.csv'}",
        "--user",
        "who",
        "--public",
        f"pages={folder / 'pages.csv'}",
        "--keys",
        "page=home,cart,pay",
        "--bounds",
        "seconds=0..90",
        "--epsilon",
        "2,1e-6",
        "--for",
        "questions,counts=60",
    )
    golden("create", text)


def test_columns_of_no_usable_type_are_named(tmp_path: Path) -> None:
    table = pa.table({"who": [1, 2], "tags": [[["a"]], [["b"]]], "n": [3, 4]})
    pq.write_table(table, tmp_path / "t.parquet")
    made = run("create", tmp_path / "s.sparseq", tmp_path / "t.parquet", "--user", "who")
    (line,) = [line for line in made.stderr.splitlines() if line.startswith("tags ")]
    assert "not stored: list<" in line


def test_the_next_command_it_names_works(folder: Path, tmp_path: Path) -> None:
    import shlex

    text = output("create", tmp_path / "s.sparseq", folder / "visits.csv", "--user", "who")
    line = next(line for line in text.splitlines() if line.startswith("try"))
    _, name, *args = shlex.split(line)
    assert name == "sparseq"
    assert "people" in output(*args)


def test_the_next_command_it_names_works_with_names_that_have_spaces(tmp_path: Path) -> None:
    import shlex

    (tmp_path / "2024-v.csv").write_text("Case no,day\n1,2024-01-05\n")
    text = output("create", tmp_path / "s.sparseq", tmp_path / "2024-v.csv", "--user", "Case no")
    line = next(line for line in text.splitlines() if line.startswith("try"))
    assert "people" in output(*shlex.split(line)[2:])


def test_several_files_are_one_table(folder: Path, tmp_path: Path) -> None:
    visits = folder / "visits.csv"
    how = "--user", "who", "--table", "merged"
    refused = run("create", tmp_path / "s.sparseq", visits, visits, *how)
    assert refused.exit_code == 6
    assert "visits.csv is there already; nothing was loaded" in refused.stderr
    more = tmp_path / "more.csv"
    more.write_text(visits.read_text() + "u1,2024-01-01,home,1.5,true\n")
    text = output("create", tmp_path / "s.sparseq", visits, more, *how)
    assert "801 rows in merged; 40 people" in text


def test_keys_take_the_type_of_their_column(folder: Path, tmp_path: Path) -> None:
    orders, store = folder / "orders.csv", tmp_path / "s.sparseq"
    (tmp_path / "days.txt").write_text("2024-01-01\n2024-01-02\n\n")
    output(
        "create",
        store,
        folder / "visits.csv",
        f"orders={orders}",
        "--user",
        "who",
        "--keys",
        "total=1,2",
        "--keys",
        f"day=@{tmp_path / 'days.txt'}",
        "--keys",
        "late=true,false",
    )
    for query, types in [
        ("SELECT total, count(*) AS n FROM orders GROUP BY total", int),
        ("SELECT day, count(*) AS n FROM visits GROUP BY day", str),
        ("SELECT late, count(*) AS n FROM visits GROUP BY late", bool),
    ]:
        rows = json.loads(output("sql", store, query, "--format", "json"))["rows"]
        assert [type(next(iter(row.values()))) for row in rows] == [
            types,
            types,
        ]  # nobody is in the group NULL


def test_seeded_store_is_loud(folder: Path, tmp_path: Path) -> None:
    args = ("create", tmp_path / "s.sparseq", folder / "visits.csv", "--user", "who", "--seed", "1")
    assert "NOT PRIVATE" in output(*args)


def test_says_what_is_set_aside_and_claims_zcdp_only(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "s.sparseq"
    made = output(
        "create",
        path,
        folder / "visits.csv",
        "--user",
        "who",
        "--epsilon",
        "2,1e-6",
        "--for",
        "questions,watch=25%",
        "--seed",
        "1",
    )
    assert "GDP" not in made
    assert "12 (25 %) to estimate how many people have been left out" in made
    assert "36 of 48 are left for questions" in made
    facts = json.loads(output("budget", path, "--format", "json"))
    assert facts["parts"] == pytest.approx({"queries": 36, "watch": 12}, abs=1e-6)
    assert facts["mu"] is None
    assert [e["gdp"] for e in facts["epsilon"]] == [None] * 4
    assert 1.999 < facts["epsilon"][1]["zcdp"] <= 2.0
    answer = json.loads(output("sql", path, "SELECT count(*) AS n FROM visits", "--format", "json"))
    assert answer["guarantee"]["mu"] is None
    assert answer["guarantee"]["epsilon"] == facts["epsilon"][1]["zcdp"]


def test_reserves_of_python_are_told(
    folder: Path, tmp_path: Path, golden: Callable[[str, str], None]
) -> None:
    path = tmp_path / "s.sparseq"
    sparseq.create(
        path,
        str(folder / "visits.csv"),
        user="who",
        epsilon=(2, 1e-6),
        seed=1,
        purposes=[sparseq.Questions(watch=0.05, forecast=0.2)],
    ).close()
    golden("budget_in_pots", output("budget", path))
    facts = json.loads(output("budget", path, "--format", "json"))
    assert facts["parts"] == pytest.approx({"queries": 36, "watch": 2.4, "forecast": 9.6}, abs=1e-6)


SERIES = "visitors=25%,ticks=10,counts=4,forecast=5%"


def test_a_series_with_forecasts_stays_gaussian(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "s.sparseq"
    visits = folder / "visits.csv"
    assert "1-GDP" in output("create", path, visits, "--user", "who", "--for", SERIES)
    assert json.loads(output("budget", path, "--format", "json"))["parts"]["queries"] == 36


def test_what_is_set_aside_is_a_share_of_the_whole_budget(folder: Path, tmp_path: Path) -> None:
    """Beside a series as without one: 5 % of 48 is 2.4."""
    path = tmp_path / "s.sparseq"
    made = output(
        "create",
        path,
        folder / "visits.csv",
        "--user",
        "who",
        "--for",
        "questions,watch=5%",
        "--for",
        SERIES,
    )
    assert "2.4 (5 %) to estimate" in made
    assert "2.4 (5 %) to estimate" in output("budget", path)


def test_parts_are_given_to_series_to_the_watch_and_to_questions(
    folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "s.sparseq"
    output(
        "create",
        path,
        folder / "visits.csv",
        "--user",
        "who",
        "--kappa",
        "1",
        "--for",
        SERIES,
        "--for",
        "queries/orders.sql=15%,ticks=4,strategy=1,-0.5,left-out=2%",
        "--for",
        "questions=60%,watch=20%",
    )
    with sparseq.connect(path) as store:
        visitors, orders = store.promise.purposes
        assert store.reserves == {Pot.WATCH: 0.2}
        assert float(store.promise.for_questions) == pytest.approx(0.4)
    assert visitors == Purpose(
        "visitors", 0.25, 10, 4.0, forecast=0.05, kappa=visitors.kappa, least=visitors.least
    )
    assert visitors.kappa == pytest.approx(0.25, rel=1e-6)
    assert (orders.name, orders.share, orders.ticks) == ("orders", 0.15, 4)
    assert (orders.strategy, orders.left_out) == ("1,-0.5", 0.02)


def test_all_that_can_be_said_of_a_series_is_kept(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "s.sparseq"
    said = "visitors=60%,ticks=365,counts=17.5,forecast=5%,cap=10%,season=7,off=0.46"
    output("create", path, folder / "visits.csv", "--user", "who", "--for", said)
    (listed,) = json.loads(output("purpose", "list", path, "--format", "json"))
    expected = {
        "share": 0.6,
        "ticks": 365,
        "counts": 17.5,
        "forecast": 0.05,
        "cap": 0.1,
        "season": 7,
        "off": 0.46,
        "strategy": "",
        "came": 0,
    }
    assert {name: listed[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["questions,watch=1.5"], "'1.5' is 150 %"),
        (["questions,watch=60%", "a=40%,ticks=3"], "series and the reserves take 100%"),
        (["a=60%,ticks=3", "b=39.5%,ticks=3"], "the shares may add up to at most 99%"),
        (["questions,watch=100%"], "the shares leave nothing for queries"),
        (["more"], "'more' has no share. Write more=20%,ticks=365."),
        (["more.csv=20%"], "more.csv has no end to plan for. Write more.csv=20%,ticks=365"),
        (["more=,ticks=3"], "'' is not a share"),
        (["more=20%,ticks=soon"], "ticks=soon is not a number"),
        (["more=20%,ticks=3,seen=12"], "seen=12 is not a range: write seen=12..31"),
        (["more=20%,ticks=0"], "ticks of more is 0"),
        (["more=20%,ticks=3,forecast=200%"], "'200%' is 200 %"),
        (["more=20%,ticks=3,coutns=2"], "nothing is said of more by coutns. Known here: ticks"),
        (["more=20%,ticks=3,forecast=5%,fade"], "nothing is said of more by fade. Known here"),
        (["more=20%,ticks=3,forecast=5%,strategy=news"], "more has forecasts or a strategy"),
        (["more=20%,ticks=3,left-out=2%"], "left-out of more needs a strategy"),
        (["more=20%,ticks=3", "more=10%,ticks=3"], "two series are called 'more'"),
        (["watch=5%,ticks=3"], "watch is a part of questions. Write questions,watch=5%."),
        (["questions=40%,ticks=3"], "nothing is said of questions by ticks. Known here: answers"),
        (
            ["a=20%,ticks=3", "questions=40%"],
            "the shares add up to 0.6, but must add up to 1 (100%)",
        ),
        (["a=20%,ticks=3", "questions=85%,watch=5%"], "the shares add up to 1.05"),
        (["7=20%,ticks=3"], "the name '7' is not valid for a series"),
    ],
)
def test_parts_that_make_no_sense(
    folder: Path, tmp_path: Path, options: list[str], says: str
) -> None:
    parts = [word for option in options for word in ("--for", option)]
    result = run("create", tmp_path / "s.sparseq", folder / "visits.csv", "--user", "who", *parts)
    assert result.exit_code == 2
    assert says in result.stderr
    assert not (tmp_path / "s.sparseq").exists()


@pytest.mark.parametrize(
    ("extra", "code", "says"),
    one_in(
        2,
        [
            (["--keys", "day=2024-01-01,soon"], 2, "'soon' is not a DATE"),
            (["--keys", "page"], 2, "--keys page can't be read"),
            (["--keys", "page=@missing.txt"], 2, "'missing.txt' can't be read"),
            (["--keys", "color=red"], 2, "color"),
            (["--bounds", "seconds=0-9"], 2, "--bounds seconds=0-9 can't be read"),
            (["--bounds", "seconds=9..0"], 2, "seconds"),
            (["--row-key", "pages"], 6, "no column 'pages'"),
            (["--row-key", "visits="], 2, "--row-key visits= can't be read"),
            (["--row-key", "orders=day"], 2, "'orders'"),
            (["--kappa", "1", "--epsilon", "1,1e-6"], 2, "kappa"),
            (["--epsilon", "1,2"], 2, "delta is 2"),
            (["--for", "questions,counts=0"], 2, "counts"),
            (["--public", "pages.csv"], 2, "--public pages=pages.csv"),
            (["--public", "p={visits}"], 2, "p is declared public, and has who, which says whom"),
            (["--really-public", "q"], 2, "no public table is called 'q'"),
            (["--user", "whom"], 6, "no column 'whom'"),
            (["--time", "when"], 6, "when"),
            (["missing.csv"], 6, "missing.csv"),
        ],
    ),
)
def test_mistakes_leave_nothing(
    folder: Path, tmp_path: Path, extra: list[str], code: int, says: str
) -> None:
    store = tmp_path / "s.sparseq"
    extra = [option.format(visits=folder / "visits.csv") for option in extra]
    result = run("create", store, folder / "visits.csv", "--user", "who", *extra)
    assert result.exit_code == code
    assert result.stderr.startswith("sparseq: ")
    assert says in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--epsilon", "1"], "'1' is one number. Write epsilon and its delta as 1,1e-6."),
        (["--epsilon", "1,x"], "'1,x' is not two numbers"),
        (["--window", "month=x"], "'x' is not a number. Write month, or month=5."),
        (["--budget-column", "seconds=x"], "Write seconds, or seconds=5."),
    ],
)
def test_what_is_no_number_is_refused(
    folder: Path, tmp_path: Path, given: list[str], says: str
) -> None:
    made = run("create", tmp_path / "s", folder / "visits.csv", "--user", "who", *given)
    assert made.exit_code == 2
    assert says in made.stderr
    assert list(tmp_path.iterdir()) == []


def test_never_overwrites(store: Path, folder: Path) -> None:
    before = store.read_bytes()
    result = run("create", store, folder / "visits.csv", "--user", "who")
    assert (result.exit_code, store.read_bytes()) == (4, before)
    assert "exists already" in result.stderr


def test_ingest_adds_rows_and_people(store: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.csv"
    more.write_text(
        "who,day,page,seconds,late\nu1,2024-02-01,home,3,true\nnew,2024-02-01,pay,4,false\n"
    )
    text = output("ingest", store, more, "--table", "visits")
    assert text.startswith("added 2 rows and 1 new person")
    assert "curator" in text


def test_rows_of_a_known_key_are_replaced(folder: Path, tmp_path: Path) -> None:
    store, more = tmp_path / "s.sparseq", tmp_path / "more.csv"
    more.write_text("who,total\nu1,1\nu1,51\nnew,1\n")
    text = output("create", store, folder / "orders.csv", "--user", "who", "--row-key", "total")
    assert "row key" in text
    text = output("ingest", store, more)
    assert text.startswith("added 3 rows (1 of them in place of earlier ones) and 1 new person")


def test_ingest_is_all_or_nothing(store: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("who,day\nu1,2024-02-01\n")
    result = run("ingest", store, wrong, "--table", "visits")
    assert result.exit_code == 6
    assert "has no column" in result.stderr
    assert (
        json.loads(output("curator", store, "summary", "--format", "json"))["rows"]["visits"] == 400
    )


def test_ingest_asks_which_table(store: Path, folder: Path) -> None:
    result = run("ingest", store, folder / "visits.csv")
    assert (result.exit_code, "visits, orders" in result.stderr) == (3, True)


def test_how_rows_are_read_is_shown_and_what_did_not_fit_is_told(
    folder: Path, tmp_path: Path
) -> None:
    day = tmp_path / "day.csv"
    day.write_text("who;day;spent\nann;01/02/2024;1,50\nbob;02/02/2024;2,00\n")
    store = tmp_path / "s.sparseq"
    made = run("create", store, day, "--user", "who", "--dates", "dmy")
    assert [re.split(" {2,}", line) for line in made.stderr.splitlines()[2:]] == [
        ["day", "day", "DATE", "read as %d/%m/%Y, as --dates says"],
        ["spent", "spent", "DOUBLE", "decimal comma: every value fits"],
    ]
    more = tmp_path / "more.csv"
    more.write_text("who;day;spent\ncid;13/13/2024;SECRET\n;01/02/2024;1\n")
    added = run("ingest", store, more)
    assert added.exit_code == 0
    assert added.stdout.startswith("added 1 row and 1 new person")
    assert added.stderr.splitlines() == [
        "day: 1 of 2 rows were left out: they name no user (for the curator only)",
        "day: day: 1 values did not fit, and are NULL (for the curator only)",
        "day: spent: 1 values did not fit, and are NULL (for the curator only)",
    ]
    assert "SECRET" not in added.output


def test_types_are_declared(tmp_path: Path) -> None:
    day = tmp_path / "day.csv"
    day.write_text('who,day,note\n007,01/02/2024,"a\nb"\n')
    store = tmp_path / "s.sparseq"
    text = output(
        "create",
        store,
        day,
        "--user",
        "who",
        "--type",
        "who=VARCHAR",
        "--type",
        "day=DATE:%m/%d/%Y",
        "--csv",
        "multiline",
        "--keys",
        "day=2024-01-02",
    )
    assert "DATE" in text
    assert "1 row in day; 1 person" in text
    found = output("curator", "sql", store, "SELECT who, day, note FROM day", "--format", "csv")
    assert found == 'who,day,note\n007,2024-01-02,"a\nb"\n'


@pytest.mark.parametrize("wrong", ["day", "day=BLOB", "day=DATE:%Q", "when=DATE", "=DATE"])
def test_types_that_make_no_sense_leave_nothing(tmp_path: Path, wrong: str) -> None:
    day = tmp_path / "day.csv"
    day.write_text("who,day\n1,2024-01-01\n")
    result = run("create", tmp_path / "s.sparseq", day, "--user", "who", "--type", wrong)
    assert result.exit_code == 2
    assert list(tmp_path.iterdir()) == [day]


def test_a_limit_on_joins_is_kept_and_explained(folder: Path, tmp_path: Path) -> None:
    store = tmp_path / "s.sparseq"
    output("create", store, folder / "visits.csv", "--user", "who", "--most", "work=5_000")
    joined = "SELECT count(*) FROM visits a JOIN visits b ON a.who = b.who"
    assert "more than 5,000 combinations in a join" in output("sql", store, "--explain", joined)
    plain = "SELECT count(*) FROM visits"
    assert "combinations" not in output("sql", store, "--explain", plain)


@pytest.mark.parametrize("most", ["work", "work=", "work=-1", "work=2.5", "cols=7", "work=0"])
def test_a_limit_that_can_not_be_read_is_refused(folder: Path, tmp_path: Path, most: str) -> None:
    made = run("create", tmp_path / "s", folder / "visits.csv", "--user", "who", "--most", most)
    assert made.exit_code != 0
    assert not (tmp_path / "s").exists()


# What create takes -------------------------------------------------------------------------------


def test_there_are_no_more_than_so_many_options_and_parameters() -> None:
    options = {p.name for p in create.params if isinstance(p, click.Option)} - {"help"}
    assert len(options) <= 28, "of the command"
    assert len(inspect.signature(sparseq.create).parameters) <= 26


@pytest.mark.parametrize(
    ("former", "now"),
    [
        (["--in-or-out"], "--for questions,in-or-out"),
        (["--halt"], "--for questions,halt"),
        (["--norm-budget", "30"], "--for questions,counts=30"),
        (["--answers=30"], "--for questions,answers=30"),
        (["--keys-delta", "1e-7"], "--for questions,keys-delta=1e-7"),
        (["--multiline"], "--csv multiline"),
        (["--encoding", "latin-1"], "--csv encoding=latin-1"),
        (["--null", "NA"], "--csv null=NA"),
    ],
)
def test_what_was_an_option_of_its_own_still_works_and_says_what_it_is_now(
    folder: Path, tmp_path: Path, former: list[str], now: str
) -> None:
    how = "--user", "who", "--seed", "1"
    old = run("create", tmp_path / "old", *former, folder / "visits.csv", *how)
    assert old.exit_code == 0, old.stderr
    name = former[0].partition("=")[0]
    assert old.stderr.splitlines() == [f"{name} is now {now}; the old name goes in 0.3"]
    new = run("create", tmp_path / "new", folder / "visits.csv", *how, *now.split())
    assert (new.exit_code, new.stderr) == (0, "")
    facts = [json.loads(output("budget", tmp_path / p, "--format", "json")) for p in ("old", "new")]
    assert facts[0] == facts[1]


@pytest.mark.parametrize(
    ("gone", "say"),
    [
        (["--epsilon", "2", "--delta", "1e-6"], "--epsilon E,DELTA"),
        (["--lifetime-kappa", "5"], "--window WINDOW=KAPPA"),
        (["--least-budget=5"], "--budget-column COL=LEAST"),
        (["--memory", "4GB"], "SPARSEQ_MEMORY"),
        (["--again"], "each file once"),
    ],
)
def test_what_is_said_in_another_place_is_refused_with_the_place(
    folder: Path, tmp_path: Path, gone: list[str], say: str
) -> None:
    made = run("create", tmp_path / "s", folder / "visits.csv", "--user", "who", *gone)
    assert made.exit_code == 2
    assert "any more" in made.stderr
    assert say in made.stderr
    assert not (tmp_path / "s").exists()


def test_a_file_that_is_there_twice_is_refused_with_a_way_that_works(
    folder: Path, tmp_path: Path
) -> None:
    store, visits = tmp_path / "s", folder / "visits.csv"
    twice = run("create", store, visits, visits, "--user", "who")
    assert "name each file once; `sparseq ingest --again`" in twice.stderr
    output("create", store, visits, "--user", "who")
    assert output("ingest", store, visits, "--again").startswith("added 400 rows")


def test_questions_may_be_said_in_several_places(folder: Path, tmp_path: Path) -> None:
    made = tmp_path / "s"
    output(
        "create",
        made,
        folder / "visits.csv",
        "--user",
        "who",
        "--for",
        "questions,in-or-out",
        "--for",
        "questions,counts=40,watch=25%",
        "--for",
        SERIES,
    )
    with sparseq.connect(made) as store:
        assert store.guarantee.norm_budget == 40
        assert store.course_facts() is None
        assert store.reserves == {Pot.WATCH: 0.25}


@pytest.mark.parametrize(
    ("said", "says"),
    [
        (["questions,counts=5", "questions,counts=6"], "questions say something twice"),
        (["questions=40%", "questions=40%,halt"], "questions say something twice"),
        (["questions,halt,halt"], "questions says halt twice"),
        (
            ["questions,coutns=5"],
            "nothing is said of questions by coutns. Known here: answers, "
            "counts, in-or-out, halt, keys-delta, watch.",
        ),
        (["questions,counts=5,ever"], "nothing is said of questions by ever"),
        (["questions,halt=1"], "halt takes no value"),
        (["questions,counts=5,answers=5"], "answers and counts set the same number"),
        (["questions,halt,answers=5"], "for in-or-out questions give counts=20"),
        (["a=20%,ticks=3,watch=5%"], "nothing is said of a by watch. Known here: ticks, counts"),
    ],
)
def test_what_questions_can_not_have_is_refused(
    folder: Path, tmp_path: Path, said: list[str], says: str
) -> None:
    words = [word for one in said for word in ("--for", one)]
    made = run("create", tmp_path / "s", folder / "visits.csv", "--user", "who", *words)
    assert made.exit_code == 2
    assert says in made.stderr
    assert not (tmp_path / "s").exists()


def test_with_a_level_for_life_people_are_weighted_for_it_too(folder: Path, tmp_path: Path) -> None:
    asked = ("create", tmp_path / "s", folder / "visits.csv", "--user", "who", "--time", "day")
    with_halt = run(*asked, "--window", "month=5", "--for", "questions,halt")
    assert "a store with a level for life has neither halt" in with_halt.stderr
    assert not (tmp_path / "s").exists()
    output(*asked, "--window", "month=5", "--for", "questions,answers=30")
    facts = json.loads(output("budget", tmp_path / "s", "--format", "json"))
    assert facts["lifetime_kappa"] == 5
    assert facts["weighted"]["answers"] == 0
    output(
        "sql",
        tmp_path / "s",
        "SELECT count(*) AS n FROM visits WHERE day >= '2024-01-01' AND day < '2024-02-01'",
    )
    with sparseq.connect(tmp_path / "s") as store:
        lifetimes = store.stream.ledger.lifetimes
        assert lifetimes is not None
        assert lifetimes.spent.sum() == pytest.approx(store.stream.accounts.spent.sum(), rel=0.01)
        assert lifetimes.spent.sum() > 0


def test_a_file_has_all_columns_with_their_types(folder: Path, tmp_path: Path) -> None:
    asked = ("create", tmp_path / "s", folder / "visits.csv", "--user", "who")
    types = tmp_path / "types.toml"
    types.write_text(output(*asked, "--print-schema"))
    assert not (tmp_path / "s").exists()
    types.write_text(types.read_text().replace('"late" = "BOOLEAN"\n', ""))
    output(*asked, "--type", f"@{types}", "--type", "seconds=FLOAT")
    with sparseq.connect(tmp_path / "s") as store:
        (visits,) = store.catalog.private
    assert [(c.name, c.type) for c in visits.columns] == [
        ("who", "VARCHAR"),
        ("day", "DATE"),
        ("page", "VARCHAR"),
        ("seconds", "FLOAT"),
    ]
    (tmp_path / "flat.toml").write_text('who = "VARCHAR"\nday = "DATE"\n')
    other = ("create", tmp_path / "t", folder / "visits.csv", "--user", "who")
    output(*other, "--type", f"@{tmp_path / 'flat.toml'}")
    with sparseq.connect(tmp_path / "t") as store:
        (visits,) = store.catalog.private
    assert [c.name for c in visits.columns] == ["who", "day"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "can't be read"),
        ("[visit]\nwho = 'VARCHAR'\n", "no table is called 'visit'"),
        ("who = 3\n", "the type of who is 3"),
    ],
)
def test_a_file_of_types_that_makes_no_sense(
    folder: Path, tmp_path: Path, text: str | None, says: str
) -> None:
    types = tmp_path / "types.toml"
    if text is not None:
        types.write_text(text)
    asked = ("create", tmp_path / "s", folder / "visits.csv", "--user", "who")
    made = run(*asked, "--type", f"@{types}")
    assert made.exit_code == 2
    assert says in made.stderr
    assert not (tmp_path / "s").exists()


def test_how_text_files_are_read(tmp_path: Path) -> None:
    rows = tmp_path / "t.csv"
    rows.write_bytes('who,note\nJos\xe9,"a\nb"\nann,NA\nNULL,-\n'.encode("latin-1"))
    store = tmp_path / "s"
    output(
        "create",
        store,
        rows,
        "--user",
        "who",
        "--csv",
        "multiline",
        "--csv",
        "encoding=latin-1",
        "--csv",
        "null=NA",
        "--csv",
        "null=-",
    )
    found = output("curator", "sql", store, "SELECT who, note FROM t", "--format", "csv")
    head, *lines = found.splitlines(keepends=True)
    assert (head, "".join(lines[:2])) == ("who,note\n", 'Jos\u00e9,"a\nb"\n')
    assert sorted(lines[2:]) == ["NULL,\n", "ann,\n"]


@pytest.mark.parametrize("wrong", ["null", "encoding", "multiline=1", "quote=x", "encoding=utf-99"])
def test_what_text_files_do_not_have_is_refused(folder: Path, tmp_path: Path, wrong: str) -> None:
    how = "--user", "who", "--csv", wrong
    made = run("create", tmp_path / "s", folder / "visits.csv", *how)
    assert made.exit_code == 2
    assert "csv" in made.stderr or "not an encoding" in made.stderr
    assert not (tmp_path / "s").exists()


def test_what_it_says_to_try_runs_whatever_columns_are_called(tmp_path: Path) -> None:
    file = tmp_path / "odd.csv"
    file.write_text("Patient ID,cost\na,1\nb,2\n")
    text = output("create", tmp_path / "odd.sparseq", file, "--user", "Patient ID")
    line = next(line for line in text.splitlines() if line.startswith("try"))
    words = shlex.split(line)[2:]
    assert words[:2] == ["sql", str(tmp_path / "odd.sparseq")]
    assert "people" in output(*words)
