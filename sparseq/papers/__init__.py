"""Filters, odometers and models of the papers that are not on the way of a question."""
