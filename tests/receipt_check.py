"""Check a receipt: python receipt_check.py RECEIPT.json ROOTS.json [EARLIER_RECEIPT.json]

ROOTS.json is the list of roots, one of each answer, and others of all accounts, as it was when the
receipt was made; what `sparseq history` showed of it is what everybody saw. EARLIER_RECEIPT.json is
one that the person kept. This is the whole check, in Python's standard library; nothing of sparseq
is imported. Every field of a receipt is compared with a root, or computed again.
"""

import hashlib
import json
import math
import pathlib
import struct
import sys

DEEP, NOTHING, UNITS, LIFE = 48, bytes(32), 2**24, 255
SAID = ("release", "released_at", "asked_by", "request", "question")
PUBLISHED = ("release", "published_at", "tree", "before", "root")


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
    facts = [sha(proof[text].encode()) for text in ("public", "own") if text in proof]
    kind = b"\4" if facts else b"\0"  # 0: a root that an earlier version made, which seals less
    return sha(kind, bytes.fromhex(proof["salt"]), name, chain, *facts, *budgets)


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


def kappa(account, public):
    """Return what charges are worth; what was moved to a later part has not been used."""
    rates = {part["pot"]: part["kappa_of_norm"] for part in public["parts"]}
    moves = {part["since"] for part in public["parts"] if part["since"]}
    used = (c for c in account["charges"] if c["pot"] != LIFE and c["release"] not in moves)
    return math.fsum(rates[c["pot"]] * c["units"] for c in used) / UNITS


def worth(level, expected, public):
    near = math.isclose(level["kappa"], expected, rel_tol=1e-9)
    want(near and level == {"kappa": level["kappa"], "says": public["so_far"]}, "the level so far")


def check_sums(account, public):
    """Compare what an account has and had with its charges."""
    names = {part["pot"]: part for part in public["parts"]}
    for part in account["parts"]:
        paid = sum(c["units"] for c in account["charges"] if c["pot"] == part["pot"])
        want(paid == part["spent"] <= part["budget"], "charges don't add up to what is spent")
        want(paid + part["held"] + part["left"] == part["budget"], "what is left is wrong")
        same = {name: part[name] for name in ("pot", "part", "since", "kappa_of_norm")}
        want(same == names.get(part["pot"]), "a part of the budget is another")
    for one in account["charges"]:
        want(one["part"] == names[one["pot"]]["part"], "another part has paid")
        want(one["norm"] == one["units"] / UNITS, "a charge is not its norm")
    worth(account["means"], kappa(account, public), public)


def check_proof(account, proof, published):
    """Climb from an account's leaf to a root that was published."""
    row = published.get(proof["root"], {})
    same = all(row.get(k) == proof[k] for k in PUBLISHED)
    want(same and len(proof["path"]) == DEEP, "a root that was not published")
    node, place = leaf(account, proof), proof["place"]
    want(place >> DEEP == 0, "a place that no tree has")
    for height, beside in enumerate(map(bytes.fromhex, proof["path"])):
        node = sha(b"\1", *((beside, node) if place >> height & 1 else (node, beside)))
    want(node.hex() == proof["tree"], "the account is not under the root")


def check_account(account, receipt, answers, published, public):
    """Compare one account with the roots."""
    last = max((row["release"] for row in published.values()), default=-1)
    whose, person = account["account"], account["account"].rpartition(",")[0]
    want(receipt["person"] in ((whose, person) if receipt["unit"] else (whose,)), "whose is it")
    want(account["name"] in [whose, *[""] * account["erased"]], "whose leaf is it")
    check_sums(account, public)
    for one in (c for c in account["charges"] if c["release"] >= min(answers, default=2**63)):
        known = answers.get(one["release"], {})
        want(said(one).hex() == known.get("said"), "an answer that nobody else saw")
    for proof in account["proofs"]:
        check_proof(account, proof, published)
    newest = [proof for proof in account["proofs"] if proof["release"] == last]
    late = all(c["release"] > last for c in account["charges"])
    want(newest or late, "no proof under the newest root")
    sealed = json.loads(newest[-1]["own"]) if newest else NO_ROWS
    want({name: account[name] for name in NO_ROWS} == sealed, "rows, or what became of them")


NO_ROWS = {"rows": {}, "erased": False, "left_out": None}


def check(receipt, roots, earlier=None):
    """Raise ValueError where a receipt is not what was published."""
    answers, published = follow(roots)
    last = max((row["release"] for row in published.values()), default=-1)
    accounts = receipt["accounts"]
    newest = [p for a in accounts for p in a["proofs"] if p["release"] == last]
    texts = {proof.get("public", "") for proof in newest}
    want(len(texts) == 1 and "" not in texts, "no proof under the newest root")
    public = json.loads(*texts)
    for name in ("unit", "population", "promise"):
        want(receipt[name] == public[name], f"the {name} is another")
    want(receipt["answers"] == max([last, *answers]), "the list of roots is of another time")
    for account in accounts:
        check_account(account, receipt, answers, published, public)
    want(receipt["erased"] == all(a["erased"] for a in accounts), "was the person erased")
    life = [p for a in accounts for p in a["parts"] if p["pot"] == LIFE and len(accounts) > 1]
    each = [kappa(account, public) for account in accounts]
    whole = math.fsum(map(math.sqrt, each)) ** 2
    whole = life[0]["spent"] / UNITS * life[0]["kappa_of_norm"] if life else whole
    worth(receipt["means"], whole, public)
    now = {account["account"]: account["charges"] for account in accounts}
    for old in earlier["accounts"] if earlier else ():
        kept = now.get(old["account"], [])[: len(old["charges"])]
        want(kept == old["charges"], "a charge of the earlier receipt is gone, or another")


if __name__ == "__main__":
    check(*(json.loads(pathlib.Path(path).read_text("utf-8")) for path in sys.argv[1:]))
    print("the receipt is as it was published")
