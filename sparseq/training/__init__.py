"""Private training: a gradient is one more query of the stream (Feldman & Zrnic 2021, section 5).

engine = ClosedForm(family("logistic"), users, features, target, bound=1.0)
gradient = noised_gradient(con, engine, params, label="step 1", clip=1.0)
"""

from sparseq.base.former_names import former_attribute
from sparseq.training.closed_form import ClosedForm
from sparseq.training.descent import PrivateGD, TrainingResult, TrainingStep
from sparseq.training.features import Feature, Target, features_of, target_of
from sparseq.training.model import Model, load_model
from sparseq.training.model_families import ModelFamily, family
from sparseq.training.protocol import (
    GradientEngine,
    Sampling,
    WeightedSum,
    charged_squares,
    upper_norms,
)
from sparseq.training.query import noised_gradient
from sparseq.training.store_rows import engine_for

__all__ = [
    "ClosedForm",
    "Feature",
    "GradientEngine",
    "Model",
    "ModelFamily",
    "PrivateGD",
    "Sampling",
    "Target",
    "TrainingResult",
    "TrainingStep",
    "WeightedSum",
    "charged_squares",
    "engine_for",
    "family",
    "features_of",
    "load_model",
    "noised_gradient",
    "target_of",
    "upper_norms",
]

__getattr__ = former_attribute(__name__)
