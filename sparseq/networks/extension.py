"""The offer of networks to `sparseq train`."""

from sparseq.base.extensions import MODELS, Offer

OFFERS = {MODELS: {"network": Offer("sparseq.networks.network.tables")}}
