"""Check a receipt: python receipt_check.py RECEIPT.json ROOTS.json [EARLIER_RECEIPT.json]

ROOTS.json is the list of roots, one of each answer, and others of all accounts; what `sparseq
history` showed of it is what everybody saw. EARLIER_RECEIPT.json is one that the person kept. This
is the whole check, in Python's standard library; nothing of sparseq is imported.
"""

import hashlib
import json
import pathlib
import struct
import sys

DEEP, NOTHING = 48, bytes(32)
SAID = ("release", "released_at", "asked_by", "request", "question")


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def want(holds, what):
    if not holds:
        raise ValueError(what)


def said(one):
    """Return the hash of what is said of an answer."""
    return sha(json.dumps([one[k] for k in SAID], separators=(",", ":")).encode())


def leaf(account, proof):
    """Return the hash of an account, with its charges and budgets as they were at a root."""
    chain = NOTHING
    for one in (c for c in account["charges"] if c["release"] <= proof["release"]):
        chain = sha(chain, struct.pack(">QBQ", one["release"], one["pot"], one["units"]), said(one))
    parts = [p for p in account["parts"] if p["since"] <= proof["release"]]
    budgets = [struct.pack(">BQ", p["pot"], p["budget"] - p.get("drawn", 0)) for p in parts]
    name = sha(bytes.fromhex(account["name_salt"]), account["name"].encode())
    return sha(b"\0", bytes.fromhex(proof["salt"]), name, chain, *budgets)


def follow(roots):
    """Return the answers by number, and roots of accounts, of a list that is one chain."""
    before, answers, accounts = NOTHING, {}, {}
    for row in roots:
        if "tree" in row:
            want(row["before"] == before.hex(), "the list of roots is forked")
            parts = struct.pack(">Q", row["release"]), bytes.fromhex(row["tree"])
            before = sha(b"\2", before, *parts)
            accounts[row["root"]] = row
        else:
            follows = row["release"] == max(answers, default=row["release"] - 1) + 1
            want(follows, "an answer is gone")
            parts = (bytes.fromhex(row[k]) for k in ("said", "answer", "sealed"))
            before = sha(b"\3", before, *parts)
            answers[row["release"]] = row
        want(row["root"] == before.hex(), "a root is not what it is made of: a fork, or a change")
    return answers, accounts


def check(receipt, roots, earlier=None):
    """Raise ValueError where a receipt is not what was published."""
    answers, published = follow(roots)
    last = max((row["release"] for row in published.values()), default=-1)
    for account in receipt["accounts"]:
        whose, person = account["account"], account["account"].rpartition(",")[0]
        want(receipt["person"] in (whose, person), "whose account is it")
        want(account["name"] in [whose, *[""] * account["erased"]], "whose leaf is it")
        for one in (c for c in account["charges"] if c["release"] >= min(answers, default=2**63)):
            known = answers.get(one["release"], {})
            want(said(one).hex() == known.get("said"), "an answer that nobody else saw")
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
        newest = [proof for proof in account["proofs"] if proof["release"] == last]
        late = all(c["release"] > last for c in account["charges"])
        want(newest or late, "no proof under the newest root")
    now = {a["account"]: a["charges"] for a in receipt["accounts"]}
    for old in earlier["accounts"] if earlier else ():
        kept = now.get(old["account"], [])[: len(old["charges"])]
        want(kept == old["charges"], "a charge of the earlier receipt is gone, or another")


if __name__ == "__main__":
    check(*(json.loads(pathlib.Path(path).read_text("utf-8")) for path in sys.argv[1:]))
    print("the receipt is as it was published")
