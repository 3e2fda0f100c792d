"""Run commands that write: where nothing can be written, or to see who may read what they made.

See `test_places.py`. It is a program of its own:

    unshare --mount python places.py full|read-only STORE FOLDER
    python places.py fine STORE FOLDER
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from sparseq.base.whole_files import keep_private
from sparseq.cli.app import sparseq

COUNT = "SELECT count(*) AS n FROM visits"


def commands(store: Path, fine: Path, place: Path) -> list[list[str]]:
    """Return the commands that write: to a place, or to a store that lies there."""
    there, visits = str(place / "web.sparseq"), str(fine / "visits.csv")
    return [
        ["create", f"{place}/new.sparseq", visits, "--user", "who"],
        ["create", f"lake://{place}/lake", visits, "--user", "who", "--buckets", "2"],
        ["backup", str(store), f"{place}/copy.sparseq"],
        ["mark", str(store), f"{place}/web.mark"],
        ["sql", str(store), COUNT, "--output", f"{place}/n.csv"],
        ["sql", str(store), COUNT, "--output", f"{place}/n.parquet"],
        ["history", str(store), "--output", f"{place}/history.csv"],
        ["curator", str(store), "sql", "FROM visits", "--output", f"{place}/rows.csv"],
        ["curator", str(store), "log", "--output", f"{place}/log.csv"],
        [
            "monitor",
            str(store),
            str(fine / "daily.sql"),
            "--over",
            "day",
            "--from",
            "2024-01-01",
            "--to",
            "2024-01-03",
            "--output",
            f"{place}/series.csv",
        ],
        ["replay", str(store), str(fine / "log.jsonl"), "--output", f"{place}/done.jsonl"],
        [
            "train",
            str(store),
            "--table",
            "visits",
            "--target",
            "late",
            "--features",
            "page",
            "--epsilon",
            "1",
            "--delta",
            "1e-6",
            "--output",
            f"{place}/model.json",
        ],
        ["demo", "--output", f"{place}/demo"],
        ["sql", there, COUNT],
        ["ingest", there, visits, "--table", "visits", "--again"],
        ["token", "create", there, "--name", "ada"],
        ["mark", there, str(fine / "web.mark")],
        ["curator", there, "forget", "u1", "--yes"],
    ]


def main(how: str, given: Path, folder: Path) -> None:
    """Make the place, run the commands, and print what came of each."""
    place, fine = folder / how, folder / "given"
    place.mkdir()
    fine.mkdir()
    for file in ("visits.csv", "web.sparseq"):
        shutil.copy(given.with_name(file), fine)
    (fine / "daily.sql").write_text(COUNT + " WHERE day >= :day AND day < :next_day")
    (fine / "log.jsonl").write_text(json.dumps({"id": "a", "sql": COUNT}) + "\n")
    if how == "fine":
        os.umask(0o022)
        keep_private()  # as `sparseq.cli.main` does
        shutil.copy(given, place)
    else:
        _mount(how, given, place)
    there = sorted(os.listdir(place))
    found = []
    for words in commands(fine / "web.sparseq", fine, place):
        if words[0] == "demo" and how == "fine":
            continue  # it takes its time
        done = CliRunner().invoke(sparseq, words, prog_name="sparseq")
        new = sorted(set(os.listdir(place)) - set(there))
        found.append([words, done.exit_code, done.stderr, new])
    print(json.dumps(found))


def _mount(how: str, given: Path, place: Path) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(place)]
    subprocess.run(mount, check=True)
    shutil.copy(given, place)
    if how == "full":
        with contextlib.suppress(OSError), open(place / "filling", "wb") as file:
            while True:
                file.write(bytes(4096))
                file.flush()
    else:
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
