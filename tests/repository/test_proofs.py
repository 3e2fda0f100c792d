"""The machine-checked gate: the proofs, and the program extracted from them as a third judge.

docs/theorems/machine-checked.md says what is proved, and what links it to the code.
"""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from judged import (
    Judged,
    Recorded,
    RecordedLife,
    RecordedWeights,
    disagreements,
    in_or_out,
    living,
    purposes,
    weighted,
    windows,
)
from mpmath import mp, mpf
from stream import test_lifetime_reference, test_reference, test_weighted_reference

from sparseq.stream import charge_amounts
from sparseq.stream.charge_amounts import charges_of

ROOT = Path(__file__).resolve().parents[2]
CHECK = ROOT / "proofs" / "check.py"
PAGE = ROOT / "docs" / "theorems" / "machine-checked.md"
installed = pytest.mark.skipif(
    shutil.which("coqc") is None or shutil.which("ocamlopt") is None,
    reason="Rocq and OCaml are not installed",
)


def checked(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(CHECK), *words], capture_output=True, text=True, check=False
    )


def judge_of(folder: Path, *mutation: str) -> Path:
    done = checked("judge", str(folder / "judge"), *mutation)
    assert done.returncode == 0, done.stderr
    return folder / "judge"


# The proofs ---------------------------------------------------------------------------------------


@installed
@pytest.mark.deep
def test_all_is_proved_on_the_listed_axioms_and_each_mutation_is_refused() -> None:
    done = checked()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "mutations are refused" in done.stdout


def test_where_rocq_is_not_installed_one_sentence_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    done = checked()
    assert done.returncode == 0
    assert done.stdout.startswith("PROOFS NOT CHECKED: coqc is not installed")
    monkeypatch.setenv("CI", "true")
    done = checked()
    assert done.returncode == 1
    assert done.stderr.startswith("PROOFS NOT CHECKED: coqc is not installed")


def test_what_the_page_quotes_is_what_is_proved() -> None:
    sources = " ".join(
        " ".join(path.read_text().split()) for path in sorted((ROOT / "proofs").glob("*.v"))
    )
    quoted = re.findall(r"^```coq\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(quoted) >= 3
    for block in quoted:
        for statement in block.strip().split("\n\n"):
            assert " ".join(statement.split()) in sources, statement


# The third judge ----------------------------------------------------------------------------------


KINDS: list[tuple[Callable[[random.Random], Judged], int]] = [
    (in_or_out, 4_000),
    (weighted, 2_500),
    (windows, 1_500),
    (living, 1_500),
    (purposes, 1_500),
]


@installed
@pytest.mark.deep
@pytest.mark.parametrize(("kind", "number"), KINDS, ids=lambda k: getattr(k, "__name__", ""))
def test_the_extracted_gate_agrees_on_random_streams(
    kind: Callable[[random.Random], Judged], number: int, tmp_path: Path
) -> None:
    """11,000 streams in all: charges, accounts and sums, to the unit."""
    program = judge_of(tmp_path)
    streams = [kind(random.Random(f"{kind.__name__} {seed}")) for seed in range(number)]
    assert disagreements(program, streams) == []


def stores_in_or_out(folders: pytest.TempPathFactory) -> None:
    @test_reference.examples(100)
    def follow(stream: test_reference.Stream, on_disk: bool) -> None:
        test_reference.follow(folders, stream, on_disk)

    follow()


def weighted_stores(_: Any) -> None:
    for seed in range(5_000, 5_040):
        test_weighted_reference.follow(seed)


def stores_of_windows(_: Any) -> None:
    for seed in range(5_000, 5_015):
        test_lifetime_reference.follow(seed)


STORES: list[tuple[Any, str, type[Any], Callable[[pytest.TempPathFactory], None]]] = [
    (test_reference, "Algorithm2", Recorded, stores_in_or_out),
    (test_weighted_reference, "Weighted", RecordedWeights, weighted_stores),
    (test_lifetime_reference, "WeightedLife", RecordedLife, stores_of_windows),
]


@installed
@pytest.mark.deep
@pytest.mark.parametrize(("module", "name", "kind", "follow"), STORES)
def test_the_extracted_gate_agrees_with_whole_stores(
    module: Any,
    name: str,
    kind: type[Any],
    follow: Callable[[pytest.TempPathFactory], None],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Streams of real stores, which are held against the reference as they run."""
    told: list[Any] = []

    def begun(*level: Any, **more: Any) -> Any:
        told.append(kind(*level, **more))
        return told[-1]

    monkeypatch.setattr(module, name, begun)
    follow(tmp_path_factory)
    assert len(told) >= 15
    program = judge_of(tmp_path_factory.mktemp("judge"))
    assert disagreements(program, [one.told() for one in told]) == []


@installed
@pytest.mark.deep
@pytest.mark.parametrize(
    ("mutation", "kind"),
    [
        ("a charge one unit too small", in_or_out),
        ("whoever has one unit too little is let in", in_or_out),
        ("a part is not paid", weighted),
        ("roots are rounded down", windows),
        ("nobody pays for life", living),
        ("a part that comes is not taken from what there was", purposes),
    ],
)
def test_a_gate_that_is_off_by_a_unit_is_found(
    mutation: str, kind: Callable[[random.Random], Judged], tmp_path: Path
) -> None:
    streams = [kind(random.Random(f"{kind.__name__} {seed}")) for seed in range(300)]
    assert disagreements(judge_of(tmp_path), streams) == []
    assert disagreements(judge_of(tmp_path, mutation), streams) != []


def test_a_charge_of_ours_that_is_off_by_a_unit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same streams find it: the shipped code is a judge of them, too."""

    def cheaper(price: Any, norms: Any) -> Any:
        charges = charges_of(price, norms)
        return charges - (charges > 0)

    monkeypatch.setattr(charge_amounts, "charges_of", cheaper)
    with pytest.raises(AssertionError):
        list(map(in_or_out, map(random.Random, range(300))))


# The noise, in numbers ----------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", ["0.3", "2.7"])
def test_the_moment_of_the_noise_is_that_of_the_proof_to_60_digits(sigma: str) -> None:
    """The proof's law by erfc, and its moment summed over all that counts, within the bound; at
    a large sigma rounding loses nearly nothing, so the bound is nearly reached."""
    with mp.workdps(80):
        s = mpf(sigma)
        reach = int(20 * s) + 40

        def law(k: int) -> mpf:
            """P(k - 1/2 <= sigma Z < k + 1/2), from the nearer tail."""
            k = abs(k)
            return (
                mp.erfc((k - mpf(1) / 2) / (s * mp.sqrt(2)))
                - mp.erfc((k + mpf(1) / 2) / (s * mp.sqrt(2)))
            ) / 2

        chances = {k: law(k) for k in range(-reach - 4, reach + 5)}
        assert abs(sum(chances.values()) - 1) < mpf(10) ** -60
        for shift, order in ((1, 2), (3, mpf("1.01")), (-2, 5)):
            p = {k: chances[k - shift] for k in range(-reach, reach + 1)}
            moment = sum(chances[k] * (p[k] / chances[k]) ** order for k in p)
            bound = mp.exp(order * (order - 1) * mpf(shift) ** 2 / (2 * s * s))
            assert 1 <= moment <= bound
            if s > 2 and order <= 2:
                assert moment > bound * mpf("0.97")
