"""Errors, texts, files that appear whole, checks of arguments: for every part of the package."""
