"""Checks the proofs, or makes the extracted judge: `make proofs` runs it, and so do deep tests.

    python proofs/check.py                    proofs, axioms, mutations
    python proofs/check.py judge FILE         the gate as a program
    python proofs/check.py judge FILE NAME    a mutation of it

Where Rocq (Debian's coq and libcoq-coquelicot) is missing it says so loudly; with CI=true it fails.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
GATE = ("Vectors", "Gate")
BEFORE = ("Vectors", "Sums", "Filter", "Gaussian", "Store", "Meaning", "Delta")
PROOFS = (*BEFORE, "Gate", "Sound", "Parts", "Windows", "Refuted")

THEOREMS = {
    "Sums": ("at_most_series", "series_at_most", "zcdp_series"),
    "Filter": ("filter", "transcript_law", "integer_gate", "algorithm2", "overdrawn_leaks"),
    "Gaussian": ("noise_total", "noised_is_law", "noise_zcdp", "noises_zcdp"),
    "Store": ("store", "life_law", "store_of_all"),
    "Sound": ("algorithm2", "weighted", "noise_of_code", "kappa_zcdp"),
    "Parts": ("purposes",),
    "Windows": ("capped", "capped_weighted"),
    "Meaning": ("approximate",),
    "Delta": ("filter_with_delta", "approximate_with_delta"),
    "Refuted": ("cheaper_is_unsound", "refund_is_unsound", "neighbour_is_not_local"),
}

AXIOMS = {
    "ClassicalDedekindReals.sig_not_dec",
    "ClassicalDedekindReals.sig_forall_dec",
    "FunctionalExtensionality.functional_extensionality_dep",
    "Classical_Prop.classic",
}
"""On which Coq's own real numbers rest, and classical logic."""


class Mutation(NamedTuple):
    """What is changed in which file, and the lemma that then has no proof."""

    file: str
    old: str
    new: str
    refused_at: str


MUTATIONS = {
    "a charge one unit too small": Mutation(
        "Gate", "then (left - cost, flat q x)", "then (left - N.pred cost, flat q x)",
        "in_or_out_pays",
    ),
    "whoever has one unit too little is let in": Mutation(
        "Gate", "if cost <=? left then", "if cost <=? left + 1 then", "in_or_out_pays"
    ),
    "charges are rounded down": Mutation(
        "Gate", "ceil_div c step * step", "c / step * step", "round_up_covers"
    ),
    "prices are rounded down": Mutation(
        "Gate", "(ceil_div (over r * 2 ^ s) (Npos (under r)), s)",
        "(over r * 2 ^ s / Npos (under r), s)", "at_price_covers",
    ),
    "weights are of another person's account": Mutation(
        "Sound", "(map (fun x => one (fst x) (snd x)))",
        "(fun l => map (fun x => one (fst x) (snd (hd x l))) l)", "each_local",
    ),
    "what is owed is given back": Mutation(
        "Gate", "Owing (left a - round_up (owed a)) 0", "Owing (left a + round_up (owed a)) 0",
        "settle_pays",
    ),
    "a part is not paid": Mutation(
        "Gate", "(Owing (left a) (owed a + due), v)", "(Owing (left a) (owed a), v)", "admit_pays"
    ),
    "weighted vectors are rounded up": Mutation(
        "Gate", "under (finer m))))\n", "under (finer m))) + 1)%Z\n", "weighed_squares",
    ),
    "a part that comes is not taken from what there was": Mutation(
        "Gate", "(Owing (there - taken) 0)", "(Owing there 0)", "part_off_pays"
    ),
    "roots are rounded down": Mutation(
        "Gate", "N.sqrt_up c + s", "N.sqrt c + s", "roots_cover"
    ),
    "after the last one they go on": Mutation(
        "Gate", "else ([], 0)", "else let (t, l) := in_turn r life in (Some (c, v) :: t, l)",
        "in_turn_disjoint",
    ),
    "nobody pays for life": Mutation(
        "Gate", "(life a - life_owed a) 0", "(life a) 0", "capped_weighted"
    ),
}  # fmt: skip


def missing() -> str:
    """What is not installed, in a word; nothing if all is there."""
    if shutil.which("coqc") is None:
        return "coqc"
    where = subprocess.run(["coqc", "-where"], capture_output=True, text=True, check=True)
    there = (Path(where.stdout.strip()) / "user-contrib" / "Coquelicot").exists()
    return "" if there else "Coquelicot"


def compiled(folder: Path, name: str) -> str:
    """Compile one file, and return what it prints, or what is wrong with it."""
    command = ["coqc", "-noglob", "-w", "-ambiguous-paths", "-Q", ".", "Sparseq", f"{name}.v"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(name, done.stderr)
    return done.stdout


class Refused(Exception):
    """Rocq has no proof of something."""

    def __init__(self, name: str, said: str) -> None:
        super().__init__(f"{name}.v is refused:\n{said}")
        found = re.search(r'File "\./(\w+)\.v", line (\d+)', said)
        self.name, self.line = name, int(found[2]) if found else 0

    def lemma(self, folder: Path) -> str:
        """What it has no proof of."""
        lines = (folder / f"{self.name}.v").read_text().splitlines()[: self.line]
        names = re.findall(r"^(?:Lemma|Theorem|Corollary) (\w+)", "\n".join(lines), re.MULTILINE)
        return names[-1] if names else ""


def checked(folder: Path) -> None:
    """Compile all, and look at what the theorems rest on."""
    for name in PROOFS:
        shutil.copy(HERE / f"{name}.v", folder)
        compiled(folder, name)
    asked = [f"{file}.{name}" for file, names in THEOREMS.items() for name in names]
    lines = [f"From Sparseq Require {' '.join(THEOREMS)}."]
    lines += [f"Print Assumptions {name}." for name in asked]
    (folder / "Assumptions.v").write_text("\n".join(lines) + "\n")
    said = compiled(folder, "Assumptions")
    found = set(re.findall(r"^([\w.]+)\s*:", said, re.MULTILINE)) - {"Axioms"}
    assert said.count("Axioms:") + said.count("Closed under") == len(asked), said
    if found - AXIOMS:
        sys.exit(f"the proofs rest on what is not listed: {', '.join(sorted(found - AXIOMS))}")


def mutated(folder: Path, mutation: Mutation) -> Path:
    """Return a folder of the same proofs with one change."""
    there = folder / "mutated"
    shutil.rmtree(there, ignore_errors=True)
    shutil.copytree(folder, there)
    text = (HERE / f"{mutation.file}.v").read_text()
    assert text.count(mutation.old) == 1, f"{mutation.old} is not there once"
    (there / f"{mutation.file}.v").write_text(text.replace(mutation.old, mutation.new))
    return there


def refused(folder: Path, name: str, mutation: Mutation) -> None:
    """See that one change is refused, at the lemma where it should be."""
    there = mutated(folder, mutation)
    try:
        for file in PROOFS[PROOFS.index(mutation.file) :]:
            compiled(there, file)
    except Refused as error:
        lemma = error.lemma(there)
        if lemma != mutation.refused_at:
            sys.exit(f"{name}: refused at {lemma}, not at {mutation.refused_at}\n{error}")
        return
    sys.exit(f"{name}: Rocq accepts it")


def judge(target: Path, name: str | None = None) -> None:
    """Make the program of the gate, or of a mutation of it."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for file in (*GATE, "Judge"):
            shutil.copy(HERE / f"{file}.v", folder)
        if name is not None:
            folder = mutated(folder, MUTATIONS[name])
        for file in (*GATE, "Judge"):
            compiled(folder, file)
        shutil.copy(HERE / "judge.ml", folder)
        command = ["ocamlopt", "-w", "-a", "gate.mli", "gate.ml", "judge.ml", "-o", "judge"]
        subprocess.run(command, cwd=folder, check=True)
        shutil.copy(folder / "judge", target)


def main() -> None:
    """Do what the command line says."""
    lacking = missing()
    if lacking:
        unchecked = f"PROOFS NOT CHECKED: {lacking} is not installed"
        if os.environ.get("CI", "").lower() in ("1", "true"):
            sys.exit(unchecked)
        print(unchecked)
        return
    if sys.argv[1:2] == ["judge"]:
        judge(Path(sys.argv[2]).absolute(), *sys.argv[3:4])
        return
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        try:
            checked(folder)
        except Refused as error:
            sys.exit(str(error))
        for name, mutation in MUTATIONS.items():
            refused(folder, name, mutation)
    print(
        f"{len(PROOFS)} files, {sum(map(len, THEOREMS.values()))} theorems, no axiom but the "
        f"{len(AXIOMS)} of Coq's real numbers; {len(MUTATIONS)} mutations are refused; "
        f"{time.monotonic() - start:.0f} s"
    )


if __name__ == "__main__":
    main()
