"""Four small sets of rows that questions of known styles are about."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

import sparseq
from benchmarks.declared import of_each
from sparseq.question.catalog import Bound

PEOPLE = 150
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class World:
    """A set of tables, and what its curator has declared.

    Attributes:
        user: The column that says whom a row is about.
        rows: Makes the rows about people, by table.
        keys, bounds: By the name of a column, in every table that has it.
        owned: Columns of identifiers that one person's rows have.
        public: Tables that are not about people.
    """

    user: str
    rows: Callable[[random.Random], dict[str, Rows]]
    keys: dict[str, tuple[Any, ...]]
    bounds: dict[str, tuple[Bound, Bound]]
    owned: tuple[str, ...] = ()
    public: dict[str, pa.Table] = field(default_factory=dict)

    def private(self) -> dict[str, pa.Table]:
        """Return the tables about people, by name."""
        return {name: _table(rows) for name, rows in self.rows(random.Random(52)).items()}

    def store(self) -> sparseq.Store:
        """Return a store of them: kappa is 1024, so that an answer has almost no noise."""
        tables = self.private()
        columns = {name: table.column_names for name, table in tables.items()}
        return sparseq.create(
            None,
            tables,
            user=self.user,
            public=self.public,
            keys=of_each(self.keys | dict.fromkeys(self.owned, "@own"), columns),
            bounds=of_each(self.bounds, columns),
            kappa=1024.0,
            seed=52,
            purposes=[sparseq.Questions(in_or_out=True, counts=1e6)],
        )

    def plain(self) -> duckdb.DuckDBPyConnection:
        """Return the same rows in plain DuckDB."""
        con = duckdb.connect()
        for name, table in {**self.private(), **self.public}.items():
            con.register("incoming", table)
            con.execute(f"CREATE TABLE {name} AS SELECT * FROM incoming")
            con.unregister("incoming")
        return con


def _table(rows: Rows) -> pa.Table:
    table = pa.Table.from_pylist(rows)
    small = {f.name: pa.int32() for f in table.schema if f.type == pa.int64()}
    fields = [pa.field(f.name, small.get(f.name, f.type)) for f in table.schema]
    return table.cast(pa.schema(fields))


def _day(rng: random.Random, first: dt.date, days: int) -> dt.date:
    return first + dt.timedelta(days=rng.randrange(days))


def _maybe(rng: random.Random, value: Any, missing: float) -> Any:
    return None if rng.random() < missing else value


VISIT_KINDS = {9201: "Inpatient Visit", 9202: "Outpatient Visit", 9203: "Emergency Room Visit"}
CONDITIONS = {
    201826: "Type 2 diabetes",
    320128: "Hypertension",
    317009: "Asthma",
    316139: "Heart failure",
}
DRUGS = {1503297: "metformin", 1308216: "lisinopril", 1154343: "albuterol"}
MEASUREMENTS = {3004249: "Systolic pressure", 3004410: "HbA1c"}
GENDERS = {8507: "MALE", 8532: "FEMALE"}


def _clinic(rng: random.Random) -> dict[str, Rows]:
    """Return visits of patients, in the columns of the OMOP common data model."""
    tables: dict[str, Rows] = {
        name: []
        for name in (
            "person",
            "visit_occurrence",
            "condition_occurrence",
            "drug_exposure",
            "measurement",
            "death",
        )
    }
    visit, start = 0, dt.date(2021, 1, 1)
    for person in range(1, PEOPLE + 1):
        who = {"person_id": 40 + 3 * person}
        tables["person"].append(
            who
            | {
                "gender_concept_id": rng.choice([*GENDERS]),
                "year_of_birth": rng.randrange(1935, 2005),
                "race_concept_id": rng.choice([8515, 8516, 8527]),
            }
        )
        for _ in range(rng.randrange(6)):
            visit += 1
            first = _day(rng, start, 700)
            last = first + dt.timedelta(days=rng.choice([0, 0, 0, 1, 3, 8, 15]))
            at = who | {"visit_occurrence_id": visit}
            tables["visit_occurrence"].append(
                at
                | {
                    "visit_concept_id": rng.choice([*VISIT_KINDS]),
                    "visit_start_date": first,
                    "visit_end_date": last,
                    "discharged_to": _maybe(rng, rng.choice(["home", "nursing"]), 0.4),
                }
            )
            tables["condition_occurrence"] += [
                at
                | {
                    "condition_concept_id": rng.choice([*CONDITIONS]),
                    "condition_start_date": first,
                }
                for _ in range(rng.randrange(3))
            ]
            tables["drug_exposure"] += [
                at
                | {
                    "drug_concept_id": rng.choice([*DRUGS]),
                    "drug_exposure_start_date": first,
                    "days_supply": _maybe(rng, rng.choice([7, 30, 90]), 0.1),
                    "quantity": rng.randrange(1, 120) / 2,
                }
                for _ in range(rng.randrange(3))
            ]
            tables["measurement"] += [
                at
                | {
                    "measurement_concept_id": kind,
                    "measurement_date": first,
                    "value_as_number": _maybe(
                        rng,
                        rng.randrange(90, 190) if kind == 3004249 else rng.randrange(40, 130) / 10,
                        0.1,
                    ),
                }
                for kind in MEASUREMENTS
                if rng.random() < 0.6
            ]
        if rng.random() < 0.15:
            tables["death"].append(who | {"death_date": _day(rng, dt.date(2022, 6, 1), 200)})
    return tables


_CONCEPTS = {**VISIT_KINDS, **CONDITIONS, **DRUGS, **MEASUREMENTS, **GENDERS}
CLINIC = World(
    "person_id",
    _clinic,
    keys={
        "gender_concept_id": tuple(GENDERS),
        "race_concept_id": (8515, 8516, 8527),
        "visit_concept_id": tuple(VISIT_KINDS),
        "condition_concept_id": tuple(CONDITIONS),
        "drug_concept_id": tuple(DRUGS),
        "measurement_concept_id": tuple(MEASUREMENTS),
        "discharged_to": ("home", "nursing"),
        "days_supply": (7, 30, 90),
    },
    bounds={
        "year_of_birth": (1920, 2010),
        "value_as_number": (0, 300),
        "quantity": (0, 100),
        **dict.fromkeys(
            [
                "visit_start_date",
                "visit_end_date",
                "condition_start_date",
                "drug_exposure_start_date",
                "measurement_date",
                "death_date",
            ],
            ("2021-01-01", "2022-12-31"),
        ),
    },
    owned=("visit_occurrence_id",),
    public={
        "concept": pa.table(
            {
                "concept_id": pa.array(_CONCEPTS, pa.int32()),
                "concept_name": list(_CONCEPTS.values()),
                "domain_id": ["Visit"] * 3
                + ["Condition"] * 4
                + ["Drug"] * 3
                + ["Measurement"] * 2
                + ["Gender"] * 2,
            }
        )
    },
)


def _clicks(rng: random.Random) -> dict[str, Rows]:
    """Return hits of a web analytics service, in columns of ClickBench."""
    hits: Rows = []
    for person in range(1, PEOPLE + 1):
        region, phone = rng.choice([229, 2, 208, 1]), rng.choice(["", "", "iPhone", "Galaxy"])
        for _ in range(rng.randrange(1, 25)):
            at = dt.datetime(2013, 7, 1) + dt.timedelta(seconds=rng.randrange(31 * 86_400))
            search = rng.random() < 0.3
            hits.append(
                {
                    "WatchID": rng.randrange(10**8),
                    "UserID": 7 * person,
                    "EventTime": at,
                    "EventDate": at.date(),
                    "CounterID": rng.choice([62, 34, 17]),
                    "RegionID": region,
                    "AdvEngineID": rng.choice([0, 0, 0, 2, 27]),
                    "IsRefresh": int(rng.random() < 0.2),
                    "ResolutionWidth": rng.choice([0, 1024, 1368, 1638, 1996]),
                    "SearchEngineID": rng.choice([2, 3]) if search else 0,
                    "SearchPhrase": rng.choice(["karelia", "albatross", "weather"])
                    if search
                    else "",
                    "URL": rng.choice(
                        ["http://a.test/", "http://google.test/x", "http://b.test/y"]
                    ),
                    "Title": rng.choice(["Google maps", "News", ""]),
                    "MobilePhoneModel": phone,
                    "OS": rng.choice([1, 2, 44]),
                    "TraficSourceID": rng.choice([-1, 0, 2, 3, 6]),
                    "DontCountHits": int(rng.random() < 0.1),
                    "Age": rng.choice([0, 16, 22, 31, 50]),
                    "Income": rng.randrange(5),
                    "SendTiming": rng.randrange(9_000),
                    "IsDownload": int(rng.random() < 0.05),
                    "IsLink": int(rng.random() < 0.1),
                }
            )
    return {"hits": hits}


CLICKS = World(
    "UserID",
    _clicks,
    keys={
        "CounterID": (17, 34, 62),
        "RegionID": (1, 2, 208, 229),
        "AdvEngineID": (0, 2, 27),
        "SearchEngineID": (0, 2, 3),
        "SearchPhrase": ("", "albatross", "karelia", "weather"),
        "MobilePhoneModel": ("", "Galaxy", "iPhone"),
        "OS": (1, 2, 44),
        "TraficSourceID": (-1, 0, 2, 3, 6),
        "Title": ("", "Google maps", "News"),
        "URL": ("http://a.test/", "http://b.test/y", "http://google.test/x"),
    },
    bounds={
        "EventTime": ("2013-07-01", "2013-07-31"),
        "EventDate": ("2013-07-01", "2013-07-31"),
        "ResolutionWidth": (0, 4000),
        "IsRefresh": (0, 1),
        "DontCountHits": (0, 1),
        "IsDownload": (0, 1),
        "IsLink": (0, 1),
        "Age": (0, 100),
        "Income": (0, 4),
    },
)


def _forum(rng: random.Random) -> dict[str, Rows]:
    """Return posts, comments, votes and badges of people, as in dumps of Stack Exchange."""
    tables: dict[str, Rows] = {n: [] for n in ("users", "posts", "comments", "votes", "badges")}
    start, post = dt.datetime(2019, 1, 1), 0
    for person in range(1, PEOPLE + 1):
        who = {"user_id": 11 * person}
        joined = start + dt.timedelta(seconds=rng.randrange(500 * 86_400))
        left = 1_000 - (joined - start).days

        def later(joined: dt.datetime = joined, left: int = left) -> dt.datetime:
            return joined + dt.timedelta(seconds=rng.randrange(left * 86_400))

        tables["users"].append(
            who
            | {
                "creation_date": joined,
                "reputation": rng.choice([1, 11, 101, 950, 4_210, 12_000]),
                "location": _maybe(rng, rng.choice(["Berlin", "Oslo", "Paris"]), 0.4),
                "up_votes": rng.randrange(300),
                "down_votes": rng.randrange(30),
                "last_access_date": later(),
                "website_url": _maybe(rng, "https://x.test", 0.7),
            }
        )
        for _ in range(rng.choice([0, 0, 1, 2, 4, 9])):
            post += 1
            question = rng.random() < 0.5
            tables["posts"].append(
                who
                | {
                    "post_id": post,
                    "post_type_id": 1 if question else 2,
                    "creation_date": later(),
                    "score": rng.randrange(-3, 40),
                    "comment_count": rng.randrange(8),
                    "view_count": rng.randrange(5_000) if question else None,
                    "answer_count": rng.randrange(5) if question else None,
                    "tags": rng.choice(["<sql>", "<python><pandas>", "<r>"]) if question else None,
                    "accepted_answer_id": _maybe(rng, rng.randrange(900), 0.5)
                    if question
                    else None,
                    "body": "x" * rng.randrange(10, 900),
                }
            )
        tables["comments"] += [
            who
            | {
                "score": rng.randrange(6),
                "creation_date": later(),
                "text": "y" * rng.randrange(300),
            }
            for _ in range(rng.randrange(6))
        ]
        tables["votes"] += [
            who | {"vote_type_id": rng.choice([2, 2, 3, 5]), "creation_date": later()}
            for _ in range(rng.randrange(8))
        ]
        tables["badges"] += [
            who
            | {
                "name": rng.choice(["Teacher", "Student", "Editor"]),
                "class": rng.randrange(1, 4),
                "date": later(),
            }
            for _ in range(rng.randrange(4))
        ]
    return tables


FORUM = World(
    "user_id",
    _forum,
    keys={
        "post_type_id": (1, 2),
        "vote_type_id": (2, 3, 5),
        "name": ("Editor", "Student", "Teacher"),
        "class": (1, 2, 3),
        "location": ("Berlin", "Oslo", "Paris"),
        "tags": ("<python><pandas>", "<r>", "<sql>"),
    },
    bounds={
        "score": (-10, 100),
        "reputation": (0, 20_000),
        **dict.fromkeys(
            ["creation_date", "date", "last_access_date"], ("2019-01-01", "2021-12-31")
        ),
    },
    owned=("post_id",),
    public={
        "vote_types": pa.table(
            {"id": pa.array([2, 3, 5], pa.int32()), "label": ["up", "down", "favorite"]}
        )
    },
)


def _subscriptions(rng: random.Random) -> dict[str, Rows]:
    """Return accounts, events, invoices and purchases of a product's users."""
    tables: dict[str, Rows] = {n: [] for n in ("users", "events", "invoices", "purchases")}
    start, number = dt.datetime(2024, 1, 1), 0
    for person in range(1, PEOPLE + 1):
        who = {"user_id": 500 + 13 * person}
        joined = start + dt.timedelta(seconds=rng.randrange(120 * 86_400))
        left = 180 - (joined - start).days
        tables["users"].append(
            who
            | {
                "created_at": joined,
                "country": rng.choice(["US", "DE", "BR", "IN"]),
                "plan": rng.choice(["free", "pro", "team"]),
                "birth_date": _day(rng, dt.date(1955, 1, 1), 18_000),
                "referral": _maybe(rng, rng.choice(["ads", "friend", "blog"]), 0.3),
                "churned_at": _maybe(rng, joined + dt.timedelta(days=rng.randrange(left)), 0.6),
            }
        )
        at = joined
        for _ in range(rng.randrange(0, 30)):
            at += dt.timedelta(seconds=rng.choice([20, 90, 400, 4_000, 90_000, 400_000]))
            if at >= start + dt.timedelta(days=181):
                break
            tables["events"].append(
                who
                | {
                    "occurred_at": at,
                    "name": rng.choice(["signup", "view", "invite", "cart", "buy"]),
                    "platform": rng.choice(["ios", "android", "web"]),
                    "variant": "AB"[person % 2],
                }
            )
        for _ in range(rng.randrange(5)):
            number += 1
            issued = _day(rng, joined.date(), left)
            tables["invoices"].append(
                who
                | {
                    "invoice_id": number,
                    "issued_on": issued,
                    "total": rng.randrange(500, 20_000) / 100,
                    "paid_on": _maybe(rng, issued + dt.timedelta(days=rng.randrange(40)), 0.2),
                    "status": rng.choice(["paid", "open", "void"]),
                }
            )
        tables["purchases"] += [
            who
            | {
                "bought_on": _day(rng, joined.date(), left),
                "price": rng.randrange(100, 9_000) / 100,
                "units": rng.randrange(1, 5),
                "sku": rng.choice(["A1", "B2", "C3"]),
            }
            for _ in range(rng.randrange(7))
        ]
    return tables


SUBSCRIPTIONS = World(
    "user_id",
    _subscriptions,
    keys={
        "country": ("BR", "DE", "IN", "US"),
        "plan": ("free", "pro", "team"),
        "referral": ("ads", "blog", "friend"),
        "variant": ("A", "B"),
        "name": ("buy", "cart", "invite", "signup", "view"),
        "platform": ("android", "ios", "web"),
        "status": ("open", "paid", "void"),
        "sku": ("A1", "B2", "C3"),
    },
    bounds={
        "total": (0, 500),
        "price": (0, 100),
        "units": (0, 10),
        **dict.fromkeys(
            ["created_at", "churned_at", "occurred_at", "issued_on", "paid_on", "bought_on"],
            ("2024-01-01", "2024-08-31"),
        ),
    },
    owned=("invoice_id",),
    public={
        "products": pa.table(
            {
                "sku": ["A1", "B2", "C3"],
                "line": ["books", "games", "books"],
                "cost": [3.0, 20.0, 7.5],
            }
        )
    },
)

WORLDS: dict[str, World] = {
    "clinic": CLINIC,
    "clicks": CLICKS,
    "forum": FORUM,
    "subscriptions": SUBSCRIPTIONS,
}
