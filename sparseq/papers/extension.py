"""Mechanisms and analyses of papers that answers do not need: they offer nothing to the core."""

from collections.abc import Mapping

from sparseq.base.extensions import Offer

OFFERS: Mapping[str, Mapping[str, Offer]] = {}
