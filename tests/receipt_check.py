"""Check a receipt: python receipt_check.py RECEIPT.json ROOTS.json [EARLIER_RECEIPT.json]

ROOTS.json is the list of roots that everybody sees; EARLIER_RECEIPT.json is one that the person
kept. This is the whole check, in Python's standard library; nothing of sparseq is imported.
"""

import hashlib
import json
import pathlib
import struct
import sys

DEEP, NOTHING = 48, bytes(32)


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def want(holds, what):
    if not holds:
        raise ValueError(what)


def leaf(account, proof):
    """Return the hash of an account, with its charges and budgets as they were at a root."""
    chain = NOTHING
    for one in (c for c in account["charges"] if c["release"] <= proof["release"]):
        said = [one[k] for k in ("release", "released_at", "asked_by", "request", "question")]
        question = sha(json.dumps(said, separators=(",", ":")).encode())
        chain = sha(chain, struct.pack(">QBQ", one["release"], one["pot"], one["units"]), question)
    parts = [p for p in account["parts"] if p["since"] <= proof["release"]]
    budgets = [struct.pack(">BQ", p["pot"], p["budget"] - p.get("drawn", 0)) for p in parts]
    name = sha(bytes.fromhex(account["name_salt"]), account["name"].encode())
    return sha(b"\0", bytes.fromhex(proof["salt"]), name, chain, *budgets)


def check(receipt, roots, earlier=None):
    """Raise ValueError where a receipt is not what was published."""
    before, last, published = NOTHING.hex(), -1, {row["root"]: row for row in roots}
    for row in roots:
        want(row["before"] == before and row["release"] > last, "the list of roots is forked")
        parts = bytes.fromhex(before), struct.pack(">Q", row["release"]), bytes.fromhex(row["tree"])
        before, last = sha(b"\2", *parts).hex(), row["release"]
        want(row["root"] == before, "a root is not what it is made of")
    for account in receipt["accounts"]:
        whose, person = account["account"], account["account"].rpartition(",")[0]
        want(receipt["person"] in (whose, person), "whose account is it")
        want(account["name"] in [whose, *[""] * account["erased"]], "whose leaf is it")
        for part in account["parts"]:
            paid = sum(c["units"] for c in account["charges"] if c["pot"] == part["pot"])
            want(paid == part["spent"] <= part["budget"], "charges don't add up to what is spent")
            want(paid + part["held"] + part["left"] == part["budget"], "what is left is wrong")
        for proof in account["proofs"]:
            row = published.get(proof["root"], {})
            same = all(row.get(k) == proof[k] for k in ("release", "tree"))
            want(same and len(proof["path"]) == DEEP, "a root that was not published")
            node, place = leaf(account, proof), proof["place"]
            for height, beside in enumerate(map(bytes.fromhex, proof["path"])):
                node = sha(b"\1", *((beside, node) if place >> height & 1 else (node, beside)))
            want(node.hex() == proof["tree"], "the account is not under the root")
        newest = [proof for proof in account["proofs"] if proof["root"] == before]
        late = all(c["release"] > last for c in account["charges"])
        want(newest or late, "no proof under the newest root")
    now = {a["account"]: a["charges"] for a in receipt["accounts"]}
    for old in earlier["accounts"] if earlier else ():
        kept = now.get(old["account"], [])[: len(old["charges"])]
        want(kept == old["charges"], "a charge of the earlier receipt is gone, or another")


if __name__ == "__main__":
    check(*(json.loads(pathlib.Path(path).read_text("utf-8")) for path in sys.argv[1:]))
    print("the receipt is as it was published")
