"""Stores: creating, opening and querying them, their public facts, and their answers."""
