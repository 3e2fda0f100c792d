"""The catalogue that clients look around in: a database of its own, without people."""
