"""Files are taken in once each, all or nothing, in order; whatever is killed, the series is one."""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from sampled import one_in
from shop_days import DAYS, QUERIES, make, sales, sources, spends, ticks

import sparseq
from sparseq.base.errors import DataError
from sparseq.ledger._duckdb.curator_log import CuratorLog
from sparseq.series import Monitor
from sparseq.series.arrivals import Arrival, Inbox
from sparseq.series.folder import Folder, has_end, sha256, stamp

LONG_AGO = 1_600_000_000
HERE = Path(__file__).parent


def put(folder: Path, name: str, rows: pa.Table | bytes, when: float = LONG_AGO) -> Path:
    """Write a file of the kind that its name says, last changed long ago."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    if isinstance(rows, bytes):
        path.write_bytes(rows)
    elif name.endswith("parquet"):
        pq.write_table(rows, path)
    elif name.endswith("csv"):
        pyarrow.csv.write_csv(rows, path)
    elif name.endswith("jsonl"):
        path.write_text("\n".join(json.dumps(r, default=str) for r in rows.to_pylist()))
    else:
        with pa.ipc.new_file(path, rows.schema) as writer:
            writer.write_table(rows)
    os.utime(path, (when, when))
    return path


def fill(folder: Path, days: list[dt.date] = DAYS) -> None:
    kinds = ("parquet", "csv", "arrow", "jsonl")
    for k, day in enumerate(days):
        put(folder, f"{day}.{kinds[k % 4]}", sales(day))


class Following:
    """A monitor on a folder, run to the end of what is there."""

    def __init__(self, con: sparseq.Store, path: Path, out: Path | None = None, **more: Any):
        self.con, self.path, self.out, self.more = con, path, out, more
        self.said: list[str] = []
        self.now = float(LONG_AGO + 10_000)

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return False

    def run(self, **how: Any) -> list[str]:
        """Deal with all files; return the ticks that were answered."""
        inbox = Inbox(self.con, "shop")
        self.folder = Folder(
            self.path,
            inbox,
            once=True,
            say=self.said.append,
            wait=self.wait,
            clock=lambda: self.now,
            **self.more,
        )
        monitor = Monitor(self.con, ticks(), sources(self.con), self.out)
        done = [t.tick.label for t in monitor.follow(self.folder, inbox, **how)]
        monitor.flush()
        return done

    def rows(self) -> int:
        ((n,),) = self.con.backend.database.execute("SELECT count(*) FROM by_user.shop").fetchall()
        return int(n)

    def reason(self, name: str) -> str:
        assert not (self.path / name).exists()
        assert (self.path / "rejected" / name).exists()
        reason = self.path / "rejected" / f"{name}.reason.txt"
        assert stat.S_IMODE(reason.stat().st_mode) == 0o600
        assert stat.S_IMODE(reason.parent.stat().st_mode) == 0o700
        return reason.read_text()


def told(con: sparseq.Store) -> str:
    """Return the curator's log."""
    return "\n".join(note.message for note in CuratorLog(con.backend.database).entries())


@pytest.fixture
def empty() -> Iterator[sparseq.Store]:
    with make(None, []) as con:
        yield con


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


# What is complete ---------------------------------------------------------------------------------


def test_files_of_all_kinds_give_the_series_that_the_data_at_once_give(
    inbox: Path, tmp_path: Path
) -> None:
    """Of a store that measures nothing of rows that are there before their tick."""
    fill(inbox)
    empty = make(None, [], in_or_out=True)
    following = Following(empty, inbox, tmp_path / "followed.csv")
    assert following.run() == [str(d) for d in DAYS]
    assert following.rows() == sum(sales(d).num_rows for d in DAYS)
    with make(None, in_or_out=True) as con:
        at_once = Monitor(con, ticks(), sources(con), tmp_path / "at_once.csv")
        assert len(list(at_once.run())) == len(DAYS)
        at_once.flush()
        assert sorted(spends(con)[0]) == sorted(spends(empty)[0])
    assert (tmp_path / "followed.csv").read_bytes() == (tmp_path / "at_once.csv").read_bytes()
    empty.close()
    assert following.said == []
    assert sorted(p.name for p in inbox.iterdir()) == sorted(
        f"{d}.{k}" for d, k in zip(DAYS, ["parquet", "csv", "arrow", "jsonl"] * 3, strict=True)
    )


def test_a_tick_is_answered_when_its_files_are_in(empty: sparseq.Store, inbox: Path) -> None:
    following = Following(empty, inbox)
    assert following.run() == []
    fill(inbox, DAYS[:2])
    assert following.run() == [str(DAYS[0]), str(DAYS[1])]
    rows = following.rows()
    assert following.run() == [str(DAYS[0]), str(DAYS[1])]  # read back: there is no file
    assert (following.rows(), empty.released) == (rows, 4)
    put(inbox, f"{DAYS[4]}.csv", sales(DAYS[4]))
    assert following.run()[2:] == [str(d) for d in DAYS[2:5]]


def test_all_parts_of_a_day_are_in_before_it_is_answered(
    empty: sparseq.Store, inbox: Path, tmp_path: Path
) -> None:
    for day in DAYS[:3]:
        put(inbox, f"{day}-a.csv", sales(day).slice(0, 2))
        put(inbox, f"{day}-b.csv", sales(day).slice(2))
    Following(empty, inbox, tmp_path / "parts.csv").run()
    with make(None, []) as con:
        fill(tmp_path / "whole", DAYS[:3])
        Following(con, tmp_path / "whole", tmp_path / "whole.csv").run()
    assert (tmp_path / "parts.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_lateness_waits_for_the_days_after(empty: sparseq.Store, inbox: Path) -> None:
    fill(inbox, DAYS[:5])
    assert Following(empty, inbox).run(lateness=dt.timedelta(days=2)) == [str(d) for d in DAYS[:3]]


def test_by_the_clock(empty: sparseq.Store, inbox: Path) -> None:
    put(inbox, "part-1.csv", sales(DAYS[0]))
    put(inbox, "part-2.csv", sales(DAYS[1]))
    following = Following(empty, inbox, by_name=False)
    noon = dt.datetime.combine(DAYS[2], dt.time(12))
    assert following.run(clock=lambda: noon) == [str(DAYS[0]), str(DAYS[1])]
    assert following.rows() == sales(DAYS[0]).num_rows + sales(DAYS[1]).num_rows
    assert following.said == []


def test_rows_dated_in_the_future_complete_nothing(empty: sparseq.Store, inbox: Path) -> None:
    """One person's row must not change how many answers there are."""
    far = sales(DAYS[0]).set_column(1, "day", pa.array([DAYS[9]] * sales(DAYS[0]).num_rows))
    put(inbox, f"{DAYS[0]}.parquet", far)
    assert Following(empty, inbox).run() == [str(DAYS[0])]


@pytest.mark.parametrize(
    ("name", "hours", "end"),
    [
        ("2024-01-31.csv", False, "2024-02-01 00:00"),
        ("x_20240131_part01.csv", True, "2024-02-01 00:00"),
        ("2024-01-31T05.csv", True, "2024-01-31 06:00"),
        ("2024-01-31T0530.csv", True, "2024-01-31 05:31"),
        ("2024-01-31_23.csv", True, "2024-02-01 00:00"),
        ("2024-01-31_23.csv", False, "2024-02-01 00:00"),
        ("2023-12.csv", False, "2024-01-01 00:00"),
        ("2024-01-01--2024-01-07.parquet", False, "2024-01-08 00:00"),
        ("2024-02-30.csv", False, None),
        ("120240101.csv", False, None),
        ("part-00000.csv", False, None),
        ("9999-12-31.csv", False, None),
    ],
)
def test_what_names_say(name: str, hours: bool, end: str | None) -> None:
    found = stamp(name, hours)
    assert (found.isoformat(" ", "minutes") if found else None) == end


# What is set aside --------------------------------------------------------------------------------


def test_a_file_without_a_date_is_taken_in_and_completes_nothing(
    empty: sparseq.Store, inbox: Path
) -> None:
    put(inbox, "sales.csv", sales(DAYS[0]))
    following = Following(empty, inbox)
    assert following.run() == []
    assert following.rows() == sales(DAYS[0]).num_rows
    assert "no date in its name" in following.said[0]


def test_the_same_contents_under_a_new_name_are_taken_in(empty: sparseq.Store, inbox: Path) -> None:
    """That nobody came, or went, since yesterday must not show; the curator is told."""
    put(inbox, f"{DAYS[0]}.csv", sales(DAYS[0]))
    put(inbox, f"{DAYS[1]}.csv", sales(DAYS[0]))
    following = Following(empty, inbox)
    assert following.run() == [str(DAYS[0]), str(DAYS[1])]
    assert following.rows() == 2 * sales(DAYS[0]).num_rows
    assert following.said == []
    assert f"{DAYS[1]}.csv has the contents of {DAYS[0]}.csv" in told(empty)


def test_days_without_rows_are_no_duplicates(empty: sparseq.Store, inbox: Path) -> None:
    for day in DAYS[:3]:
        put(inbox, f"{day}.csv", sales(day).slice(0, 0))
    assert Following(empty, inbox).run() == [str(d) for d in DAYS[:3]]


def test_a_file_that_changed_after_it_was_taken_in(empty: sparseq.Store, inbox: Path) -> None:
    name = f"{DAYS[0]}.csv"
    path = put(inbox, name, sales(DAYS[0]))
    following = Following(empty, inbox)
    following.run()
    os.utime(path, (LONG_AGO + 5, LONG_AGO + 5))  # touched only
    following.run()
    assert following.said == []
    assert told(empty) == ""
    put(inbox, name, pa.concat_tables([sales(DAYS[0]), sales(DAYS[1])]))
    following.run()
    assert following.said == []  # whether it changed is what its rows say
    assert f"{name} has changed since it was loaded" in told(empty)
    assert following.rows() == sales(DAYS[0]).num_rows


@pytest.mark.parametrize(
    ("name", "contents"),
    [
        ("other.csv", b"who,when,what\n1,2,3\n"),
        ("notes.md", b"# hello\n"),
        ("empty.csv", b""),
        ("torn.jsonl.gz", b"\x1f\x8b"),
    ],
)
def test_a_file_that_does_not_fit_is_set_aside_whole(
    empty: sparseq.Store, inbox: Path, name: str, contents: bytes
) -> None:
    put(inbox, f"{DAYS[0]}-{name}", contents)
    put(inbox, f"{DAYS[1]}.csv", sales(DAYS[1]))
    following = Following(empty, inbox)
    assert following.run() == []
    assert following.rows() == sales(DAYS[1]).num_rows
    assert following.reason(f"{DAYS[0]}-{name}")
    with make(None, []) as con:  # the folder is as it was; nothing is set aside twice
        again = Following(con, inbox)
        again.run()
        assert again.folder.set_aside == 0


def test_a_value_that_does_not_fit_sets_nothing_aside(empty: sparseq.Store, inbox: Path) -> None:
    rows = b"who,day,kind,amount\n1,2024-01-01,a,3.5\n2,2024-01-01,b,SECRET\nx,2024-01-01,a,4.5\n"
    put(inbox, f"{DAYS[0]}.csv", rows)
    put(inbox, f"{DAYS[1]}.jsonl", b'{"who": 1}\n["SECRET"]\nSECRET\n')
    following = Following(empty, inbox)
    assert following.run() == [str(DAYS[0]), str(DAYS[1])]
    assert following.said == []
    assert following.rows() == 3
    assert "amount: 1 values did not fit" in told(empty)
    assert "1 of 3 rows were left out" in told(empty)
    assert "SECRET" not in told(empty)


def test_a_file_that_is_set_aside_holds_back_its_ticks_until_it_is_mended(
    empty: sparseq.Store, inbox: Path
) -> None:
    """Its rows are missing; a tick that was answered without them would stay wrong."""
    put(inbox, f"{DAYS[0]}.csv", sales(DAYS[0]))
    put(inbox, f"{DAYS[1]}.csv", b"name,date\n1,2\n")
    put(inbox, f"{DAYS[2]}.csv", sales(DAYS[2]))
    following = Following(empty, inbox)
    assert following.run() == [str(DAYS[0])]
    assert following.reason(f"{DAYS[1]}.csv")
    assert "--skip" in following.said[-1]
    assert following.run() == [str(DAYS[0])]  # a monitor that is started again waits too
    assert Inbox(empty, "shop").held == [f"{DAYS[1]}.csv"]
    put(inbox, f"{DAYS[1]}.csv", b"still,wrong\n")
    assert following.run() == [str(DAYS[0])]
    put(inbox, f"{DAYS[1]}.csv", sales(DAYS[1]))
    assert following.run() == [str(d) for d in DAYS[:3]]
    assert following.rows() == sum(sales(d).num_rows for d in DAYS[:3])
    assert Inbox(empty, "shop").held == []


def test_a_file_that_is_set_aside_can_be_skipped_by_its_name(
    empty: sparseq.Store, inbox: Path
) -> None:
    put(inbox, f"{DAYS[0]}.csv", b"garbage\n")
    put(inbox, f"{DAYS[1]}.csv", sales(DAYS[1]))
    following = Following(empty, inbox)
    assert following.run() == []
    again = Inbox(empty, "shop")
    assert again.complete is None
    with pytest.raises(sparseq.ParameterError, match=r"(?s)holds no ticks back.*2024-01-01\.csv"):
        again.skip("other.csv")
    again.skip(f"{DAYS[0]}.csv")
    assert "is skipped" in told(empty)
    assert following.run() == [str(DAYS[0]), str(DAYS[1])]


def test_a_late_file_that_is_set_aside_holds_nothing_back(
    empty: sparseq.Store, inbox: Path
) -> None:
    """Its ticks are answered: nothing can be mended in them."""
    put(inbox, f"{DAYS[0]}.csv", sales(DAYS[0]))
    put(inbox, f"{DAYS[1]}.csv", sales(DAYS[1]))
    following = Following(empty, inbox)
    assert following.run() == [str(DAYS[0]), str(DAYS[1])]
    put(inbox, f"{DAYS[0]}-more.csv", b"garbage\n")
    put(inbox, f"{DAYS[2]}.csv", sales(DAYS[2]))
    assert following.run() == [str(d) for d in DAYS[:3]]


HOSTILE_NAMES = [
    b"2024-01-01\n\x1b[31mred\x1b]0;title\x07.csv",
    b"2024-01-01-\xff\xfe.csv",
    b"2024-01-01" + b"x" * 241 + b".csv",
    b"2024-01-01[12]*?.csv",
    "2024-01-01\u202egpj.csv".encode(),
    b"2024-01-01'; --.csv",
]


@pytest.mark.parametrize("name", one_in(2, HOSTILE_NAMES))
@pytest.mark.parametrize("good", [True, False])
def test_no_name_stops_the_monitor(
    empty: sparseq.Store, inbox: Path, name: bytes, good: bool
) -> None:
    source = put(inbox, "x.tmp.csv", sales(DAYS[0]) if good else b"garbage\n")
    os.rename(source, os.path.join(os.fsencode(inbox), name))
    following = Following(empty, inbox)
    expected = [str(DAYS[0])] if good else []
    assert following.run() == expected
    assert following.run() == expected
    assert following.rows() == (sales(DAYS[0]).num_rows if good else 0)
    assert len(following.said) == (0 if good else 2)
    assert all(text.isprintable() for text in following.said)
    aside = [] if good else os.listdir(inbox / "rejected")
    assert len(aside) == (0 if good else 2)


@pytest.mark.parametrize("own", one_in(2, ["-3.25", "0", "nan", "inf", "1e999", "30", "x", ""]))
def test_no_budget_stops_the_monitor(inbox: Path, own: str) -> None:
    """One person's own budget, or two of them, makes no difference to what is seen."""
    nobody = sales(DAYS[0]).slice(0, 0)
    nobody = nobody.append_column("own", pa.array([], pa.float64()))
    with sparseq.create(None, {"shop": nobody}, user="who", budget_column="own", seed=1) as con:
        head = "who,day,kind,amount,own\n"
        rows = f"77,{DAYS[0]},a,1,{own}\n77,{DAYS[0]},a,1,7\n78,{DAYS[0]},a,1,5\n"
        put(inbox, f"{DAYS[0]}.csv", (head + rows).encode())
        put(inbox, f"{DAYS[1]}.csv", (head + rows).encode())
        following = Following(con, inbox)
        assert following.run() == [str(DAYS[0]), str(DAYS[1])]
        assert following.said == []
        assert following.rows() == 6
        budgets = con.backend.database.execute(
            "SELECT id, budget >> 24 FROM ledger.users"
        ).fetchall()
        assert dict(budgets) == {77: 0 if own == "0" else 7, 78: 5}
        assert "3.25" not in told(con)


def test_a_second_file_of_one_name_is_set_aside_beside_the_first(
    empty: sparseq.Store, inbox: Path
) -> None:
    for _ in range(2):
        put(inbox, "x.csv", b"a\n1\n")
        Following(empty, inbox).run()
    assert sorted(p.name for p in (inbox / "rejected").iterdir()) == [
        "2-x.csv",
        "2-x.csv.reason.txt",
        "x.csv",
        "x.csv.reason.txt",
    ]


def test_late_files_are_kept_or_set_aside_by_their_names(empty: sparseq.Store, inbox: Path) -> None:
    fill(inbox, DAYS[:3])
    following = Following(empty, inbox)
    following.run()
    values = [empty.release(k).rows() for k in range(1, 7)]
    put(inbox, f"{DAYS[1]}-late.csv", sales(DAYS[1]).slice(2))
    told: list[str] = []
    following.run(late=lambda a: bool(told.append(a.key)) or True)
    assert told == [f"{DAYS[1]}-late.csv"]
    assert following.rows() == sum(sales(d).num_rows for d in [*DAYS[:3], DAYS[1]]) - 2
    assert [empty.release(k).rows() for k in range(1, 7)] == values
    assert empty.released == 6  # answered ticks stay as they are
    put(inbox, f"{DAYS[0]}-late.csv", sales(DAYS[0]).slice(1))

    def reject(arrival: Arrival) -> bool:
        following.folder.reject(arrival.key, "late")
        return False

    following.run(late=reject)
    assert following.reason(f"{DAYS[0]}-late.csv") == "late\n"


# Half-written files -------------------------------------------------------------------------------


def test_a_growing_file_is_waited_for_and_holds_up_the_others(
    empty: sparseq.Store, inbox: Path
) -> None:
    following = Following(empty, inbox)
    first = put(inbox, f"{DAYS[0]}.csv", b"who,day,kind,amount\n", when=following.now + 1)
    put(inbox, f"{DAYS[1]}.csv", sales(DAYS[1]))
    whole = put(inbox, "whole.tmp", b"")
    pyarrow.csv.write_csv(sales(DAYS[0]), whole)
    looks = []

    def wait(seconds: float) -> bool:
        following.now += seconds
        looks.append(following.rows())
        if len(looks) <= 5:  # a few bytes more each second
            first.write_bytes(whole.read_bytes()[: None if len(looks) == 5 else 30 * len(looks)])
            os.utime(first, (following.now, following.now))
        return False

    following.wait = wait  # type: ignore[method-assign]
    assert following.run() == [str(DAYS[0]), str(DAYS[1])]
    assert set(looks) == {0}
    assert len(looks) >= 7
    assert following.rows() == sales(DAYS[0]).num_rows + sales(DAYS[1]).num_rows
    assert following.folder.set_aside == 0


@pytest.mark.parametrize("kind", ["parquet", "arrow", "csv.gz"])
def test_a_file_whose_end_never_comes_is_set_aside(
    empty: sparseq.Store, inbox: Path, kind: str
) -> None:
    if kind == "csv.gz":
        import gzip

        whole = gzip.compress(b"who,day,kind,amount\n1,2024-01-01,a,3.5\n" * 50)
    else:
        whole = put(inbox, f".hidden.{kind}", sales(DAYS[0])).read_bytes()
    following = Following(empty, inbox)
    name = f"{DAYS[0]}.{kind}"
    path = put(inbox, name, whole[: len(whole) // 2], when=following.now)
    assert not has_end(path)
    put(inbox, f"{DAYS[1]}.csv", sales(DAYS[1]))
    before = following.now
    assert following.run() == []
    assert following.now - before >= 29
    assert following.reason(name)
    assert following.rows() == sales(DAYS[1]).num_rows


def test_text_without_a_last_line_end_is_waited_for_and_then_taken(
    empty: sparseq.Store, inbox: Path
) -> None:
    following = Following(empty, inbox)
    text = b"who,day,kind,amount\n1,2024-01-01,a,3.5"
    put(inbox, f"{DAYS[0]}.csv", text, when=following.now)
    before = following.now
    assert following.run() == [str(DAYS[0])]
    assert following.now - before >= 29
    assert following.rows() == 1


def test_files_of_writers_at_work_are_not_looked_at(empty: sparseq.Store, inbox: Path) -> None:
    for name in (f".{DAYS[0]}.csv", f"{DAYS[0]}.csv.tmp", "_SUCCESS", f"{DAYS[0]}.parquet.part"):
        put(inbox, name, b"?")
    (inbox / "folder.csv").mkdir()
    following = Following(empty, inbox)
    assert following.run() == []
    assert following.said == []


def test_a_folder_that_is_not_there(empty: sparseq.Store, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no folder"):
        Following(empty, tmp_path / "none").run()


# Batches from elsewhere ---------------------------------------------------------------------------


def test_batches_are_taken_in_once_under_their_keys(tmp_path: Path) -> None:
    path = tmp_path / "s.sparseq"

    def batches(first: int) -> Iterator[Arrival]:
        for k, day in list(enumerate(DAYS))[first:]:
            end = dt.datetime.combine(day, dt.time()) + dt.timedelta(days=1)
            yield Arrival(sales(day).to_batches()[0], f"topic/0/{k}", end)

    make(path, [], in_or_out=True).close()
    for first in (0, 0, 3, 0):  # a broker that sends again what it has sent
        with sparseq.connect(path) as con:
            monitor = Monitor(con, ticks(), sources(con), tmp_path / "out.csv")
            for ticked in monitor.follow(batches(first), Inbox(con, "shop")):
                if ticked.tick.number == 5 + first:
                    break
    with sparseq.connect(path) as con:
        monitor = Monitor(con, ticks(), sources(con), tmp_path / "out.csv")
        assert list(monitor.follow(batches(0), Inbox(con, "shop")))
        monitor.flush()
        assert con.released == 2 * len(DAYS)
    with make(None, in_or_out=True) as con:
        at_once = Monitor(con, ticks(), sources(con), tmp_path / "at_once.csv")
        assert len(list(at_once.run())) == len(DAYS)
        at_once.flush()
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "at_once.csv").read_bytes()


def test_a_batch_that_does_not_fit_is_the_callers_to_deal_with(empty: sparseq.Store) -> None:
    monitor = Monitor(empty, ticks(), sources(empty))
    bad = Arrival(pa.table({"who": [1]}), "k")
    with pytest.raises(DataError):
        list(monitor.follow([bad], Inbox(empty, "shop")))
    assert Inbox(empty, "shop").notes == {}


# Killed -------------------------------------------------------------------------------------------


class Lives:
    """`sparseq` commands that die at their n-th moment (see lives.py)."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "lives.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(sparseq.__file__).parents[1])},
        )

    def live(self, until: int, *args: str | Path) -> int:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps([until, *map(str, args)]) + "\n")
        stdin.flush()
        return int(stdout.readline())

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture
def lives() -> Iterator[Lives]:
    lives = Lives()
    yield lives
    lives.close()


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_killed_at_any_moment_the_series_is_that_of_one_run(
    tmp_path: Path, lives: Lives, kind: str
) -> None:
    fill(tmp_path / "in")
    for name, sql in QUERIES.items():
        (tmp_path / f"{name}.sql").write_text(sql)
    results = {}
    draw = random.Random(kind)
    for run in ("whole", "killed"):
        path, out = tmp_path / f"{run}.sparseq", tmp_path / f"{run}.{kind}"
        make(path, []).close()
        line = (
            "monitor",
            path,
            *(tmp_path / f"{name}.sql" for name in QUERIES),
            "--from",
            DAYS[0],
            "--to",
            DAYS[-1],
            "--follow",
            tmp_path / "in",
            "--output",
            out,
            "--quiet",
            "--anyway",
        )
        deaths = 0
        while run == "killed" and lives.live(draw.randrange(6, 36), *map(str, line)) == -9:
            deaths += 1
            if out.exists():  # whole, whenever it is looked at
                rows = pq.read_table(out) if kind == "parquet" else pyarrow.csv.read_csv(out)
                assert rows.num_rows % 5 == 0
        assert lives.live(0, *map(str, line)) == 0
        assert run == "whole" or deaths >= 4
        with sparseq.connect(path) as con:
            ids = [r.request_id for r in con.releases()]
            assert len(ids) == len(set(ids)) == 2 * len(DAYS)
            assert con.backend.database.execute("SELECT count(*) FROM by_user.shop").fetchall() == [
                (sum(sales(d).num_rows for d in DAYS),)
            ]
            results[run] = (out.read_bytes(), spends(con))
    assert results["killed"] == results["whole"]
    assert sha256(tmp_path / f"whole.{kind}") == sha256(tmp_path / f"killed.{kind}")
