"""Figures described as data, and drawn in a terminal, as a page, as an image."""
