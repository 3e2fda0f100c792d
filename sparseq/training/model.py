"""A trained model: public coefficients, their meaning, and their guarantee."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sparseq.base.errors import DataError
from sparseq.training.descent import TrainingResult
from sparseq.training.features import Feature, Target, encoded
from sparseq.training.model_families import family
from sparseq.training.protocol import Floats

FORMAT = 1


@dataclass(frozen=True)
class Model:
    """Coefficients and their meaning; everything in it is public.

    Attributes:
        name: logistic, linear, softmax or poisson.
        target, features: Target and features with their encoding.
        params: float64 (outputs, features + 1), the intercept last.
        kappa: Largest cost of the run, zCDP; mu is sqrt(2 kappa) if `gaussian`.
        run, steps: Name of the run, and the number of its steps up to this model.
        seeded: The noise came from a seed: not private.
        gaussian: The run's noise was all Gaussian.
    """

    name: str
    target: Target
    features: tuple[Feature, ...]
    params: Floats
    kappa: float
    run: str
    steps: int
    seeded: bool
    gaussian: bool = True

    @classmethod
    def of(
        cls,
        name: str,
        target: Target,
        features: tuple[Feature, ...],
        run: str,
        trained: TrainingResult,
    ) -> Model:
        """Return the model that a run has trained."""
        width = sum(len(f.names) for f in features) + 1
        params = trained.params.reshape(-1, width)
        return cls(
            name,
            target,
            features,
            params,
            trained.kappa,
            run,
            trained.taken,
            trained.seeded,
            trained.gaussian,
        )

    def predict(self, table: Any) -> Floats:
        """Return the model's mean for each row: a number, or one probability per class.

        Args:
            table: An Arrow table, or an object that converts to one, with the features' columns.

        Raises:
            DataError: A column is missing.
        """
        x = encoded(self.features, table)
        predictors = np.ascontiguousarray((x @ self.params[:, :-1].T + self.params[:, -1]).T)
        with np.errstate(over="ignore"):
            mean = family(self.name, max(len(self.params), 2)).inverse_link(predictors)
        middle, half = self.target.scaling
        return middle + half * mean[0] if len(mean) == 1 else np.asarray(mean.T)

    def to_dict(self) -> dict[str, Any]:
        """Return the model as plain data."""
        mu = math.sqrt(2 * self.kappa) if self.gaussian else None
        return {
            "format": FORMAT,
            "model": self.name,
            "target": {
                "column": self.target.column,
                "value": self.target.value,
                "keys": self.target.keys,
                "bounds": self.target.bounds,
            },
            "features": [
                {"column": f.column, "bounds": f.bounds, "ranges": f.ranges, "keys": f.keys}
                for f in self.features
            ],
            "names": [name for f in self.features for name in f.names],
            "coefficients": self.params[:, :-1].tolist(),
            "intercept": self.params[:, -1].tolist(),
            "guarantee": {"kappa": self.kappa, "mu": mu, "private": not self.seeded},
            "run": self.run,
            "steps": self.steps,
        }

    def to_json(self) -> str:
        """Return the model as JSON."""
        return json.dumps(self.to_dict(), indent=2, default=str)

    def save_npz(self, file: Any) -> None:
        """Write coefficients, intercept and, as JSON, all other facts to a NumPy archive."""
        np.savez(
            file,
            coefficients=self.params[:, :-1],
            intercept=self.params[:, -1],
            model=np.array(self.to_json()),
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Model:
        """Return the model that `to_dict` described.

        Raises:
            DataError: The data describe no model.
        """
        try:
            if data["format"] != FORMAT:
                raise ValueError("another format")
            features = tuple(
                Feature(f["column"], _tuple(f["bounds"]), f["ranges"], _tuple(f["keys"]))
                for f in data["features"]
            )
            target = data["target"]
            return cls(
                data["model"],
                Target(
                    target["column"],
                    target["value"],
                    _tuple(target["keys"]),
                    _tuple(target["bounds"]),
                ),
                features,
                np.column_stack([np.array(data["coefficients"]), np.array(data["intercept"])]),
                data["guarantee"]["kappa"],
                data["run"],
                data["steps"],
                not data["guarantee"]["private"],
                data["guarantee"]["mu"] is not None,
            )
        except (KeyError, TypeError, ValueError):
            raise DataError("this is not a model that this version can read") from None


def load_model(path: str | Path) -> Model:
    """Return the model in a file that `sparseq train` wrote: JSON or npz.

    Raises:
        DataError: It can't be read, or is not a model.
    """
    path = Path(path)
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                return Model.from_dict(json.loads(str(archive["model"])))
        return Model.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError):
        raise DataError(f"{str(path)!r} can't be read as a model") from None


def _tuple(values: Any) -> Any:
    return None if values is None else tuple(values)
