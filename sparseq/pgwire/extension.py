"""The extension that offers PostgreSQL's protocol to a server."""

from sparseq.base.extensions import LISTENERS, Offer

OFFERS = {LISTENERS: {"pg": Offer("sparseq.pgwire.connections", "serve_wire")}}
