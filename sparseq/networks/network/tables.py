"""Networks over a store's own rows: the module, its inputs and targets, and its file."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from sparseq.base.errors import DataError, ParameterError
from sparseq.networks.network.engine import Network
from sparseq.question.catalog import Table
from sparseq.store.store import Store
from sparseq.training.descent import TrainingResult
from sparseq.training.features import Feature, Target, encoded
from sparseq.training.protocol import Floats
from sparseq.training.store_rows import rows_of

FORMAT = 1
HIDDEN = 64


def mlp(features: int, outputs: int) -> nn.Module:
    """Return the module that `--model mlp` trains: one hidden layer of tanh."""
    return nn.Sequential(nn.Linear(features, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, outputs))


def module_for(model: str, features: int, outputs: int) -> nn.Module:
    """Return the module for a text, its parameters drawn from a fixed seed.

    Args:
        model: `mlp`, or `path.py:factory`: a Python file, and a function in it.
        features, outputs: Arguments of the function.

    Raises:
        ParameterError: There is no such file or function, or it returns no module.

    Example:
        >>> sum(p.numel() for p in module_for("mlp", 3, 2).parameters())
        386
    """
    factory = mlp if model == "mlp" else _factory(model)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # the same command gives the same start
        try:
            module = factory(features, outputs)
        except Exception as error:
            raise ParameterError(
                f"{model} failed with {type(error).__name__}: {error}",
                f"it is called with the numbers of features and outputs: {features}, {outputs}",
            ) from None
    if not isinstance(module, nn.Module):
        raise ParameterError(
            f"{model} returned a {type(module).__name__}", "it must return a torch.nn.Module"
        )
    return module


def _factory(model: str) -> Any:
    """Run a Python file and return a function from it."""
    path, _, name = model.rpartition(":")
    spec = importlib.util.spec_from_file_location("sparseq_model", path)
    if not Path(path).is_file() or spec is None or spec.loader is None:
        raise ParameterError(f"there is no Python file {path!r}", "--model module.py:factory")
    found = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(found)
    except Exception as error:
        raise ParameterError(f"{path} failed with {type(error).__name__}: {error}") from None
    factory = getattr(found, name, None)
    if not callable(factory):
        raise ParameterError(
            f"{path} has no function {name!r}", f"def {name}(features, outputs): ..."
        )
    return factory


def outputs_of(target: Target) -> int:
    """Return the number of the module's outputs: one per class, or 1 for a number."""
    if target.keys is not None:
        return len(target.keys)
    return 2 if target.value is not None else 1


def network_for(
    store: Store, table: Table, features: Sequence[Feature], target: Target, model: str
) -> Network:
    """Return an engine over a store's private table.

    Rows without a target are ignored. Classes have cross-entropy as their loss, a number half its
    squared error.

    Raises:
        ParameterError: See `module_for` and `Network`.
    """
    module = module_for(model, sum(len(f.names) for f in features), outputs_of(target))
    users, x, y = rows_of(store, table, features, target)
    known = np.isfinite(y)
    users, x, y = users[known], x[known], y[known]
    inputs = np.asarray(x.toarray() if sparse.issparse(x) else x, np.float32)
    if outputs_of(target) == 1:
        return Network(module, users, inputs, y.astype(np.float32), loss=_half_square)
    return Network(module, users, inputs, y.astype(np.int64))


def _half_square(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs.reshape(len(targets)) - targets) ** 2 / 2


@dataclass(frozen=True)
class NetworkModel:
    """A trained module and its meaning; everything in it is public.

    Attributes:
        name: `mlp`, or the file and the function that made the module.
        target, features: Target and features with their encoding.
        module: The module with the chosen parameters.
        kappa, gaussian: Largest cost of the run, zCDP; mu-GDP too if all noise was Gaussian.
        run, steps: Name of the run, and the number of its steps up to this model.
        seeded: The noise came from a seed: not private.
    """

    name: str
    target: Target
    features: tuple[Feature, ...]
    module: nn.Module
    kappa: float
    run: str
    steps: int
    seeded: bool
    gaussian: bool

    @classmethod
    def of(
        cls,
        name: str,
        target: Target,
        features: tuple[Feature, ...],
        run: str,
        trained: TrainingResult,
        engine: Network,
    ) -> NetworkModel:
        """Return the model that a run has trained."""
        return cls(
            name,
            target,
            features,
            engine.load(trained.params),
            trained.kappa,
            run,
            trained.taken,
            trained.seeded,
            trained.gaussian,
        )

    def predict(self, table: Any) -> Floats:
        """Return for each row a number, the probability of yes, or one probability per class.

        Args:
            table: An Arrow table, or an object that converts to one, with the features' columns.

        Raises:
            DataError: A column is missing.
        """
        x = encoded(self.features, table)
        with torch.no_grad():
            out = self.module.eval()(torch.from_numpy(x).float())
        if outputs_of(self.target) == 1:
            middle, half = self.target.scaling
            return np.asarray(middle + half * out.reshape(len(x)).double().numpy())
        chances = torch.softmax(out.double(), 1).numpy()
        return np.asarray(chances if self.target.keys is not None else chances[:, 1])

    def save(self, file: Any) -> None:
        """Write it: parameters as a state_dict, and the meaning of inputs and outputs as JSON."""
        about = {
            "format": FORMAT,
            "model": self.name,
            "target": asdict(self.target),
            "features": [asdict(f) for f in self.features],
            "names": [name for f in self.features for name in f.names],
            "kappa": self.kappa,
            "gaussian": self.gaussian,
            "private": not self.seeded,
            "run": self.run,
            "steps": self.steps,
        }
        text = json.dumps(about, default=str)
        torch.save({"about": text, "state": self.module.state_dict()}, file)


def load_network(path: str | Path, model: str | None = None) -> NetworkModel:
    """Return the model in a file that `sparseq train --output FILE.pt` wrote.

    Args:
        path: Path of the file. Nothing in it is executed.
        model: The value of `--model`; required if that was a Python file, which is executed.

    Raises:
        DataError: It can't be read, or the module is another one.
        ParameterError: See `module_for`.
    """
    try:
        file = torch.load(path, weights_only=True)
        data = json.loads(file["about"])
        if data["format"] != FORMAT:
            raise ValueError("another format")
        features = tuple(Feature(**_tuples(f)) for f in data["features"])
        target, name, width = Target(**_tuples(data["target"])), data["model"], len(data["names"])
    except Exception:
        raise DataError(f"{str(path)!r} can't be read as a network") from None
    if model is None and name != "mlp":
        raise ParameterError(
            f"the network was made by {name}", "give its place: load_network(path, model=…)"
        )
    module = module_for(model or name, width, outputs_of(target))
    try:
        module.load_state_dict(file["state"])
    except RuntimeError:
        raise DataError(f"{model or name} makes another network than the file holds") from None
    return NetworkModel(
        name,
        target,
        features,
        module,
        data["kappa"],
        data["run"],
        data["steps"],
        not data["private"],
        data["gaussian"],
    )


def _tuples(fields: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()}
