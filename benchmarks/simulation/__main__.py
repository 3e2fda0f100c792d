"""`python -m benchmarks.simulation`."""

from __future__ import annotations

import faulthandler
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

from benchmarks.simulation.checks import Finding
from benchmarks.simulation.drivers import SETTINGS, template
from benchmarks.simulation.seams import Seams
from benchmarks.simulation.world import World, silence


def rates(draw: random.Random) -> dict[str, float]:
    return {
        "kill": draw.choice([0, 0, 1 / 1000, 1 / 200]),
        "power": draw.choice([0, 1 / 2000, 1 / 500, 1 / 100]),
        "full": draw.choice([0, 0, 1 / 300]),
        "broken": draw.choice([0, 0, 1 / 300]),
        "slow": draw.choice([0, 1 / 100]),
        "jump": draw.choice([0, 1 / 500]),
        "lost": draw.choice([0, 0.05]),
    }


def main() -> None:
    faulthandler.enable()
    silence()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    base = Path(tempfile.mkdtemp(prefix="sparseq-sim-", dir="/dev/shm"))
    kinds = sys.argv[3].split(",")
    try:
        made = base / "made"
        made.mkdir()
        query = template(made)
        begun, steps, seed = time.perf_counter(), 0, int(sys.argv[1])
        while time.perf_counter() - begun < float(sys.argv[2]):
            root = base / "w"
            root.mkdir()
            world = World(seed, root, rates(random.Random(seed)))
            with Seams(world).in_place():
                try:
                    SETTINGS[kinds[seed % len(kinds)]](world, made, query).live(3000)
                except Finding as f:
                    print(seed, "FOUND", f)
                except BaseException as e:
                    import traceback

                    traceback.print_exc()
                    print(seed, "ERROR", repr(e))
                    break
            steps += world.steps
            if len(sys.argv) > 4:
                print(seed, world.steps, world.digest, flush=True)
            shutil.rmtree(root)
            seed += 1
        print(seed, steps, steps / (time.perf_counter() - begun) * 60)
    finally:
        shutil.rmtree(base)


if __name__ == "__main__":
    main()
