"""A store: made, opened, asked; what it says of itself, and its answers."""
