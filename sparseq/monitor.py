"""The former name of `sparseq.series`; it goes with the next version."""

from __future__ import annotations

import warnings

from sparseq.series import *  # noqa: F403
from sparseq.series import __all__  # noqa: F401

warnings.warn("sparseq.monitor is called sparseq.series", DeprecationWarning, stacklevel=2)
