"""The catalogue for clients' look-ups: a separate database without users."""
