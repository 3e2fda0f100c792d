"""Check a store's journal: python journal_check.py STORE ROOTS.json [RECEIPT.json ...]

For an auditor who may read the store's file, or a lake's folder (a copy of it, closed). Whom each
answer charged is what its root sealed when it was given; and receipts have the charges of that
person that are in it. Nothing of sparseq is imported: the standard library, and DuckDB to read.
"""

import hmac
import json
import pathlib
import struct
import sys
import urllib.parse

import duckdb
from receipt_check import check, sha, want

WIDTHS = {b"1": "B", b"2": "H", b"4": "I", b"8": "Q"}


def head(data):
    """Return the kind, the length, a number and the rest of what was packed."""
    return *struct.unpack_from("<cqq", data), data[17:]


def many(kind, data):
    return struct.unpack(f"<{len(data) // struct.calcsize(kind)}{kind}", data)


def bits(data, length):
    return [data[k >> 3] >> (7 - (k & 7)) & 1 for k in range(length)]


def long(code):
    """Return a number of 11 significant bits, from 16."""
    return int(struct.unpack("<f", struct.pack("<I", (code + (126 << 10)) << 13))[0]) if code else 0


def units(data):
    """Return packed charges."""
    kind, length, number, rest = head(data)
    if kind == b"=":
        return [number] * length
    if kind in WIDTHS:
        return list(many(WIDTHS[kind], rest))
    if kind == b"h":
        return [long(code) for code in many("H", rest)]
    most, rest = many("H", rest[: 2 * number]), rest[2 * number :]
    places = bits(rest, length) if number == 2 else rest[:length]
    others = iter(many("H", rest[length:]) if number > 2 else ())
    return [long(most[at] if at < number else next(others)) for at in places]


def people(data):
    """Return packed numbers of people."""
    kind, length, first, rest = head(data)
    if kind in (b"=", b"b"):
        there = [1] * length if kind == b"=" else bits(rest, length)
        return [first + k for k, bit in enumerate(there) if bit]
    found, gap = [first], 0
    for step in many(WIDTHS.get(kind, "B"), rest):
        gap += step
        if kind != b"g" or step < 255:
            found, gap = [*found, found[-1] + gap], 0
    return found


def of_file(store):
    """Return the key, everybody's number, and of each answer its pot, what is sealed, who paid."""
    with duckdb.connect(str(store), read_only=True) as con:
        ((key,),) = con.execute("SELECT value FROM meta WHERE key = 'root key'").fetchall()
        columns = "id, pot, users, charges, coalesce(departed, ''::BLOB)"
        rows = con.execute(f"SELECT {columns} FROM ledger.release").fetchall()
        numbers = dict(con.execute("SELECT id::VARCHAR, _user FROM ledger.users").fetchall())
        try:
            life = con.execute("SELECT release, people, units FROM ledger.lifetimes").fetchall()
        except duckdb.CatalogException:
            life = []
    whole, found = {number: more for number, *more in life}, {}
    for release, pot, users, charges, departed in rows:
        paid = {pot: dict(zip(people(users), units(charges), strict=True))}
        over = whole.get(release, [b"", b""])
        if release in whole:
            paid[255] = dict(zip(people(over[0]), units(over[1]), strict=True))
        found[release] = pot, [users, charges, departed, *over], paid
    return json.loads(key), numbers, found


def of_lake(folder):
    """Return the same of a lake: its files are those that its log has, entry by entry."""
    ledger, con, since, paths = folder / "ledger", duckdb.connect(), -1, {}
    for whole in sorted((ledger / "_delta_log").glob("*.checkpoint.parquet"))[-1:]:
        since = int(whole.name.partition(".")[0])
        sql = f"SELECT add.path FROM '{whole}' WHERE add.path IS NOT NULL"
        paths = dict(con.execute(f"SELECT path, 1 FROM ({sql})").fetchall())
    for entry in sorted((ledger / "_delta_log").glob("*.json")):
        for line in entry.read_text("utf-8").splitlines() if int(entry.stem) > since else ():
            one = json.loads(line)
            paths |= {one["add"]["path"]: 1} if "add" in one else {}
            paths.pop(one.get("remove", {}).get("path"), None)

    def rows(kind, columns):
        some = [str(ledger / p) for p in map(urllib.parse.unquote, paths) if f"kind={kind}/" in p]
        sql = f"SELECT {columns} FROM read_parquet(?, hive_partitioning = false) ORDER BY ALL"
        return con.execute(sql, [some]).fetchall() if some else []

    facts = [json.loads(note) for of, note in rows("notes", "of, note") if of == "fact"]
    found = {release: (pot, [], {pot: {}}) for release, pot in rows("releases", "release, pot")}
    buckets = rows("buckets", "bucket, file")
    for bucket, release, pot, users, charges in rows(
        "charges", "bucket, release, pot, users, charges"
    ):
        theirs = (place * len(buckets) + bucket for place in people(users))
        found[release][1].extend((users, charges))
        found[release][2][pot] |= dict(zip(theirs, units(charges), strict=True))
    for release, users in rows("departed", "release, users"):
        found[release][1].append(users)
    numbers = {}
    for bucket, file in buckets:
        with duckdb.connect(str(folder / "buckets" / file), read_only=True) as one:
            of = one.execute("SELECT id::VARCHAR, _user FROM ledger.users").fetchall()
            numbers |= {name: place * len(buckets) + bucket for name, place in of}
    return dict(facts)["root key"], numbers, found


def audit(store, roots, receipts):
    """Raise ValueError where the journal is not what roots sealed, or a receipt not what it has."""
    store = pathlib.Path(store)
    key, numbers, found = of_lake(store) if store.is_dir() else of_file(store)
    answers = {row["release"]: row for row in roots if "sealed" in row}
    want(set(found) >= set(answers), "an answer is not in the journal")
    for release, answer in answers.items():
        pot, parts, _ = found[release]
        public = bytes.fromhex(answer["said"] + answer["answer"])
        salt = hmac.digest(bytes.fromhex(key), b"charges" + public, "sha256")
        lengths = [struct.pack(">Q", len(part)) + part for part in parts]
        sealed = sha(salt, bytes([pot]), *lengths).hex()
        want(sealed == answer["sealed"], f"answer {release} charged others, or other units")
    for receipt in receipts:
        check(receipt, roots)
        for account in receipt["accounts"]:
            who = numbers[account["account"]]
            has = {
                (release, pot): some[who]
                for release, (_, _, paid) in found.items()
                for pot, some in paid.items()
                if some.get(who)
            }
            shown = {(c["release"], c["pot"]): c["units"] for c in account["charges"]}
            want(has == shown, "the receipt has other charges than the journal")


if __name__ == "__main__":
    read = [json.loads(pathlib.Path(path).read_text("utf-8")) for path in sys.argv[2:]]
    audit(sys.argv[1], read[0], read[1:])
    print("the journal is as its roots sealed it")
