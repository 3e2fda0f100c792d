"""The offer of lakes: stores at addresses that begin with lake://."""

from sparseq.base.extensions import STORES, Offer

OFFERS = {STORES: {"lake": Offer("sparseq.lake.lake_kind", "LAKES")}}
