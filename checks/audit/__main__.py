"""python -m checks.audit: see `checks.audit`."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict
from typing import Any

import click

from checks.audit import hostile, lower_bounds, planted, planted_stores, timing
from checks.audit.comparison import Finding
from checks.audit.directed import directed
from checks.audit.search import search
from checks.audit.trial import Result
from sparseq.pictures.tables import format_table

PLANTED_SECONDS = 600.0


@click.group(invoke_without_command=True)
@click.option("--minutes", type=float, default=60.0, help="How long to search.")
@click.option("--seed", type=int, default=1, help="The same seed asks the same questions.")
@click.option("--processes", type=int, default=0, help="By default one a core.")
@click.option("--bounds/--no-bounds", default=False, help="Bound epsilon from answers as well.")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON object.")
@click.pass_context
def main(
    context: click.Context,
    minutes: float,
    seed: int,
    processes: int,
    bounds: bool,
    as_json: bool,
) -> None:
    """Search for rows that tell; exit code 1 if one does.

    Every planted leak is tried first, with its own questions: an audit that finds nothing must be
    one that could have found something.
    """
    if context.invoked_subcommand is not None:
        return
    found = {leak.name: planted_stores.named(directed(leak), leak) for leak in planted.LEAKS}
    result = _searched(seed, 60 * minutes, processes or os.cpu_count() or 1)
    result.findings += hostile.findings()
    shown = [a.to_dict() for a in lower_bounds.every()] if bounds else []
    _print_findings(result.findings)
    _summary(result, found)
    _print_bounds(shown)
    broken = [a["name"] for a in shown if not a["kept"]]
    if as_json:
        click.echo(
            json.dumps(
                {
                    "cases": result.cases,
                    "findings": [asdict(f) for f in result.findings],
                    "planted_found": sorted(name for name, was in found.items() if was),
                    "planted": len(found),
                    "lower_bounds": shown,
                    "seed": seed,
                    "seconds": round(result.seconds, 1),
                }
            )
        )
    sys.exit(bool(result.findings or broken or not all(found.values())))


def _searched(seed: int, seconds: float, processes: int) -> Result:
    """Search in several processes, each with a different seed."""
    if processes == 1:
        return search(seed, seconds, report=_progress)
    result, begun = Result(), time.monotonic()
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=spawn) as pool:
        parts: list[Future[Result]] = [
            pool.submit(search, seed + 1_000_000 * i, seconds) for i in range(processes)
        ]
        while not all(part.done() for part in parts):
            _progress(f"{time.monotonic() - begun:,.0f} of {seconds:,.0f} s")
            time.sleep(0.5)
        for part in parts:
            result.add(part.result())
    return result


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text[:100]:100}", end="\r", file=sys.stderr, flush=True)


def _print_findings(findings: list[Finding]) -> None:
    for i, finding in enumerate(findings, 1):
        click.echo(f"{i}. {finding.rule}: {finding.detail}\n   {finding.case}")
        if finding.reproduction:
            click.echo("   ---\n" + finding.reproduction + "\n   ---")


def _summary(result: Result, found: dict[str, bool]) -> None:
    share = 100 * result.answered / max(result.questions, 1)
    rows = [
        ["neighbour cases", f"{result.cases:,}"],
        ["questions", f"{result.questions:,}, {share:.0f} % answered"],
        ["seconds", f"{result.seconds:,.0f}"],
        ["findings", f"{len(result.findings)}"],
        ["planted leaks found", f"{sum(found.values())} of {len(found)}"],
    ]
    click.echo(format_table(["audit", ""], rows, list("ll")))


def _print_bounds(shown: list[dict[str, Any]]) -> None:
    if not shown:
        return
    rows = []
    for one in shown:
        bound = one["lower_bound"]
        rows.append(
            [
                one["name"],
                f"{bound['runs']:,}",
                f"{one['promise_epsilon']:.2f}",
                f"{bound['epsilon']:.2f}",
                f"{one['promise_mu']:.3f}",
                f"{bound['mu']:.3f}",
                f"{one['e_value']:.3g}",
                "kept" if one["kept"] else "BROKEN",
            ]
        )
    head = [
        "answers",
        "runs a side",
        "epsilon promised",
        "shown, at least",
        "mu promised",
        "shown, at least",
        "e-value",
        "",
    ]
    click.echo(format_table(head, rows, list("lrrrrrrl")))
    click.echo(f"epsilon at delta {lower_bounds.DELTA:g}; lower bounds with 99 % confidence")


@main.command("bounds")
@click.option("--runs", type=int, default=lower_bounds.RUNS, help="On each side.")
@click.option("--json", "as_json", is_flag=True)
def bounds_command(runs: int, as_json: bool) -> None:
    """Bound epsilon from answers alone, and say how soon bets find planted faults."""
    shown = []
    for audited in lower_bounds.every(runs):
        shown.append(audited.to_dict())
    _print_bounds(shown)
    faults = {name: lower_bounds.found_after(name, runs) for name in lower_bounds.FAULTS}
    rows = [
        [name, f"after {b.pairs:,} pairs" if b.pairs else "never", f"{b.wealth:.3g}", f"{b.of:,}"]
        for name, b in faults.items()
    ]
    click.echo(
        format_table(["fault, in counts", "found", "most wealth", "pairs"], rows, list("lrrr"))
    )
    if as_json:
        found = {name: bet.pairs for name, bet in faults.items()}
        click.echo(json.dumps({"lower_bounds": shown, "found_after": found}))
    sys.exit(not all(one["kept"] for one in shown) or faults["none"].pairs is not None)


@main.command("planted")
@click.option("--seed", type=int, default=1)
@click.option("--only", default="", help="Leaks whose name has this in it.")
@click.option("--json", "as_json", is_flag=True)
def planted_command(seed: int, only: str, as_json: bool) -> None:
    """Plant every leak, and say after how many seconds the search finds it."""
    seconds: dict[str, float | None] = {}
    rows = []
    for leak in planted.LEAKS:
        if only not in leak.name:
            continue
        _progress(leak.name)
        with leak.plant():
            result = search(seed, PLANTED_SECONDS, first=True)
        right = planted_stores.named(result.findings, leak)
        seconds[leak.name] = round(result.seconds, 1) if right else None
        what = result.findings[0].rule if result.findings else "nothing"
        rows.append([leak.name, f"{result.seconds:.1f} s", f"{result.cases:,}", what])
    click.echo(format_table(["planted", "found after", "cases", "as"], rows, list("lrrl")))
    if as_json:
        click.echo(json.dumps({"planted_found": seconds}))
    sys.exit(None in seconds.values())


@main.command("timing")
@click.option("--json", "as_json", is_flag=True)
def timing_command(as_json: bool) -> None:
    """Report what running times reveal; it is not a finding (docs/audit.md)."""
    told = [one.to_dict() for one in timing.told()]
    rows = [
        [
            t["name"],
            f"{t['rows']:,}",
            f"{t['without_ms']:.2f} ms",
            f"{t['with_ms']:.2f} ms",
            f"{100 * t['right']:.0f} %",
        ]
        for t in told
    ]
    head = ["question", "rows of the person", "without", "with", "a guess by the clock is right"]
    click.echo(format_table(head, rows, list("lrrrr")))
    if as_json:
        click.echo(json.dumps({"timing": told}))


@main.command("hostile")
def hostile_command() -> None:
    """Ask hostile texts: SQL, keys, names, files."""
    found = hostile.findings()
    _print_findings(found)
    click.echo(f"{hostile.count()} texts, {len(found)} findings")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
