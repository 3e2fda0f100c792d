"""Check a store's journal: python journal_check.py STORE ROOTS.json [RECEIPT.json ...]

For an auditor who may read the store's file (a copy of it, closed). Whom each answer charged is
what its root sealed when it was given; and receipts have the charges of that person that are in it.
Nothing of sparseq is imported: the standard library, and DuckDB to read the file.
"""

import hmac
import json
import pathlib
import struct
import sys

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


def audit(store, roots, receipts):
    """Raise ValueError where the journal is not what roots sealed, or a receipt not what it has."""
    with duckdb.connect(str(store), read_only=True) as con:
        ((key,),) = con.execute("SELECT value FROM meta WHERE key = 'root key'").fetchall()
        rows = con.execute(
            "SELECT id, pot, users, charges, departed FROM ledger.release"
        ).fetchall()
        numbers = dict(con.execute("SELECT id::VARCHAR, _user FROM ledger.users").fetchall())
        try:
            life = con.execute("SELECT release, people, units FROM ledger.lifetimes").fetchall()
        except duckdb.CatalogException:
            life = []
    whole = {number: (who, much) for number, who, much in life}
    answers = {row["release"]: row for row in roots if "sealed" in row}
    want({row[0] for row in rows} >= set(answers), "an answer is not in the journal")
    paid = {}
    for release, pot, users, charges, departed in rows:
        if release in answers:
            over = whole.get(release, (b"", b""))
            parts = [users, charges, departed or b"", *over]
            public = bytes.fromhex(answers[release]["said"] + answers[release]["answer"])
            salt = hmac.digest(bytes.fromhex(json.loads(key)), b"charges" + public, "sha256")
            lengths = [struct.pack(">Q", len(part)) + part for part in parts]
            found = sha(salt, bytes([pot]), *lengths).hex()
            want(
                found == answers[release]["sealed"],
                f"answer {release} charged others, or other units",
            )
        paid[release, pot] = dict(zip(people(users), units(charges), strict=True))
        if release in whole:
            paid[release, 255] = dict(zip(people(over[0]), units(over[1]), strict=True))
    for receipt in receipts:
        check(receipt, roots)
        for account in receipt["accounts"]:
            who = numbers[account["account"]]
            has = {at: some[who] for at, some in paid.items() if some.get(who)}
            shown = {(c["release"], c["pot"]): c["units"] for c in account["charges"]}
            want(has == shown, "the receipt has other charges than the journal")


if __name__ == "__main__":
    read = [json.loads(pathlib.Path(path).read_text("utf-8")) for path in sys.argv[2:]]
    audit(sys.argv[1], read[0], read[1:])
    print("the journal is as its roots sealed it")
