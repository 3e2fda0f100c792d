"""The cost of a private step of a network, against the plain gradient and Opacus: `make bench`.

    python -m benchmarks network

The CNN of Opacus's MNIST example, 26,010 parameters, 10,000 made-up images, channels last for all,
each way with its best micro-batch and number of threads. *Plain* is the gradient of everybody's
loss. *Private* is the computation of a step: everybody's norm, weights, the clipped sum on the
lattice, squares. *Opacus* is 1.6's clipped sum, without its noise and its accountant, in its three
modes: hooks, ghost clipping (fast gradient clipping of two backward passes) and functorch. Memory
is that of a separate process in addition to its libraries and data.

The last gate is logistic regression, as in `benchmarks.training`, against Opacus in float32.

Needs `pip install 'sparseq[networks]' opacus==1.6.0`; without Opacus its figures are left out.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks import training

IMAGES = 10_000
ROUNDS = 7
MOST_RATIO, OPACUS_RATIO = 1.5, 1.7
MODES = ("hooks", "ghost", "functorch")
_SIZES = (250, 500, 1000)
_LOGISTIC_SIZES = (2000, 8000, training.PEOPLE)
_THREADS = 2


def run() -> Iterator[dict[str, Any]]:
    """Yield ratios, which are gates, and times, which are information."""
    if importlib.util.find_spec("torch") is None:
        return
    ways = {"plain": plain, "private": private}
    if importlib.util.find_spec("opacus") is not None:
        ways |= {f"opacus_{mode}": opacus for mode in MODES}
    steps = {name: best(name, make) for name, make in ways.items()}
    times = medians(steps)
    ratio = times["private"] / times["plain"]
    yield figure("cnn_vs_plain", ratio, "times the plain gradient's time", most=MOST_RATIO)
    rivals = {name: t for name, t in times.items() if name.startswith("opacus")}
    if rivals:
        yield figure(
            "cnn_vs_opacus",
            min(rivals.values()) / times["private"],
            "times faster",
            least=OPACUS_RATIO,
        )
    if rivals:
        yield from logistic()
    for name, seconds in times.items():
        yield figure(f"cnn_{name}", 1e3 * seconds, "ms a step")
    peaks = {name: peak(name) for name in times}
    for name, mebibytes in peaks.items():
        leanest = min((peaks[r] for r in rivals), default=None)
        yield figure(
            f"memory_{name}", mebibytes, "MiB", most=leanest if name == "private" else None
        )


def logistic() -> Iterator[dict[str, Any]]:
    """Yield how much faster a private step of logistic regression is than Opacus's best."""
    steps = {mode: best(mode, opacus_logistic, _LOGISTIC_SIZES) for mode in MODES}
    with training.store(None) as store:
        private_step = training.private_step(store, *training.problem()[2:])
        private, *rivals = training.medians([private_step, *steps.values()])
    yield figure("logistic_vs_opacus", min(rivals) / private, "times faster", least=15.0)
    for name, seconds in [("private", private), *zip(steps, rivals, strict=True)]:
        yield figure(f"logistic_{name}", 1e3 * seconds, "ms a step")


def data() -> tuple[Any, Any]:
    import torch

    generator = torch.Generator().manual_seed(0)
    x = torch.rand(IMAGES, 1, 28, 28, generator=generator)
    return x, torch.randint(0, 10, (IMAGES,), generator=generator)


def cnn() -> Any:
    import torch

    from benchmarks.papers.mnist import network

    torch.manual_seed(0)
    return network().to(memory_format=torch.channels_last)


def plain(size: int, _: str) -> Callable[[], Any]:
    """The gradient of everybody's loss."""
    import torch
    import torch.nn.functional as F

    (x, y), model = data(), cnn()

    def step() -> None:
        torch.set_num_threads(_THREADS)
        model.zero_grad()
        for i in range(0, IMAGES, size):
            part = x[i : i + size].contiguous(memory_format=torch.channels_last)
            F.cross_entropy(model(part), y[i : i + size], reduction="sum").backward()

    return step


def private(size: int, _: str) -> Callable[[], Any]:
    """Norms, weights, the exact sum, squares."""
    from sparseq.compiled import compiled
    from sparseq.networks.network import Network

    (x, y), model = data(), cnn()
    compiled()
    engine = Network(model, np.arange(IMAGES), x, y, micro=size)
    params = engine.start()

    def step() -> None:
        for batch in engine.batches():
            norms, pull = engine.query(params, batch)
            pull(np.minimum(1.0, 1.0 / np.maximum(norms, 1e-9)), 2.0**-38)

    return step


def opacus(size: int, name: str) -> Callable[[], Any]:
    """Opacus on the CNN."""
    import torch.nn.functional as F

    mode = name.removeprefix("opacus_")
    return clipped_by_opacus(cnn(), *data(), F.cross_entropy, mode, size)


def opacus_logistic(size: int, mode: str) -> Callable[[], Any]:
    """Opacus on the logistic regression of `benchmarks.training`."""
    import torch
    import torch.nn.functional as F

    generator = torch.Generator().manual_seed(0)
    x = torch.rand(training.PEOPLE, training.FEATURES - 1, generator=generator) * 2 - 1
    y = torch.randint(0, 2, (training.PEOPLE, 1), generator=generator).float()
    linear = torch.nn.Linear(training.FEATURES - 1, 1)

    def loss(outputs: Any, targets: Any, reduction: str) -> Any:
        return F.binary_cross_entropy_with_logits(outputs, targets, reduction=reduction)[:, 0]

    return clipped_by_opacus(linear, x, y, loss, mode, size)


def clipped_by_opacus(
    model: Any, x: Any, y: Any, loss: Any, mode: str, size: int
) -> Callable[[], Any]:
    """The clipped sum, as Opacus's optimisers have it before noise."""
    import torch
    from opacus.grad_sample import GradSampleModule
    from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import (
        GradSampleModuleFastGradientClipping,
    )

    if mode == "ghost":
        wrapped: Any = GradSampleModuleFastGradientClipping(
            model, max_grad_norm=1.0, use_ghost_clipping=True, loss_reduction="sum"
        )
    else:
        functorch = mode == "functorch"
        wrapped = GradSampleModule(model, loss_reduction="sum", force_functorch=functorch)

    def step() -> None:
        torch.set_num_threads(_THREADS)
        for i in range(0, len(x), size):
            part, labels = x[i : i + size], y[i : i + size]
            if part.dim() == 4:
                part = part.contiguous(memory_format=torch.channels_last)
            wrapped.zero_grad(set_to_none=True)
            losses = loss(wrapped(part), labels, reduction="none")
            if mode == "ghost":
                losses.sum().backward(retain_graph=True)
                weights = wrapped.get_clipping_coef()
                wrapped.zero_grad(set_to_none=True)
                wrapped.disable_hooks()
                (weights * losses).sum().backward()
                wrapped.enable_hooks()
            else:
                losses.sum().backward()
                samples = [p.grad_sample for p in wrapped.parameters()]
                norms = torch.stack([s.flatten(1).norm(2, dim=1) for s in samples], 1).norm(2, 1)
                weights = (1.0 / (norms + 1e-6)).clamp(max=1.0)
                for p, s in zip(wrapped.parameters(), samples, strict=True):
                    torch.einsum("i,i...", weights, s)
                    p.grad_sample = None

    return step


def best(
    name: str, make: Callable[[int, str], Callable[[], Any]], sizes: tuple[int, ...] = _SIZES
) -> Callable[[], Any]:
    """Return the step with the micro-batch that is fastest for it."""
    timed = [
        (min(_seconds(step) for _ in range(2)), k, step)
        for k, step in enumerate(make(size, name) for size in sizes)
    ]
    return min(timed, key=lambda t: t[:2])[2]


def medians(steps: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Return each step's median time, taking turns."""
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(ROUNDS):
        for name, step in steps.items():
            taken[name].append(_seconds(step))
    return {name: float(np.median(times)) for name, times in taken.items()}


def _seconds(step: Callable[[], Any]) -> float:
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def peak(name: str) -> float:
    """Return the MiB that a step needs, in a separate process, at its leanest micro-batch."""
    code = (
        "import benchmarks.network as n\n"
        f"step = n.{'opacus' if name.startswith('opacus') else name}({_SIZES[0]}, {name!r})\n"
        "before = n.most_memory()\n"
        "step()\n"
        "print(n.most_memory() - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def most_memory() -> float:
    """Return the most MiB that this process has had: Linux only."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))


def figure(
    name: str, value: float, unit: str, *, most: float | None = None, least: float | None = None
) -> dict[str, Any]:
    ok = (most is None or value <= most) and (least is None or value >= least)
    limit = f"<= {most:.4g}" if most is not None else f">= {least:g}" if least is not None else None
    return {
        "name": f"network.{name}",
        "figure": round(value, 2),
        "unit": unit,
        "limit": limit,
        "ok": ok,
    }
