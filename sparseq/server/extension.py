"""Offers of the server: its commands, and tools for a store that it has."""

from sparseq.base.extensions import COMMANDS, SERVED, Offer

OFFERS = {
    COMMANDS: {
        "serve": Offer(
            "sparseq.server.cli.serve", "serve", "Serve a store to clients with tokens."
        ),
        "token": Offer(
            "sparseq.server.cli.token", "token", "Make, list and revoke tokens of a served store."
        ),
        "mcp": Offer(
            "sparseq.server.cli.serve",
            "mcp",
            "Tools for an agent, by standard input and output (MCP).",
        ),
        "audit": Offer(
            "sparseq.server.cli.token", "audit", "Look at the audit log of a served store."
        ),
    },
    SERVED: {
        "backup": Offer("sparseq.server.operator_socket", "served_backup"),
        "tell_losses": Offer("sparseq.server.quota_totals", "tell_losses_of"),
    },
}
