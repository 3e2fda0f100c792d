"""Private training: a gradient is one more query of the stream (Feldman & Zrnic 2021, section 5).

engine = ClosedForm(family("logistic"), users, features, target, bound=1.0)
gradient = noised_gradient(con, engine, params, label="step 1", clip=1.0)
"""

from sparseq.training.closed_form import ClosedForm
from sparseq.training.descent import PrivateGD, Step, Trained
from sparseq.training.families import Family, family
from sparseq.training.protocol import Engine, Pulled, charged_squares, upper_norms
from sparseq.training.query import noised_gradient

__all__ = [
    "ClosedForm",
    "Engine",
    "Family",
    "PrivateGD",
    "Pulled",
    "Step",
    "Trained",
    "charged_squares",
    "family",
    "noised_gradient",
    "upper_norms",
]
