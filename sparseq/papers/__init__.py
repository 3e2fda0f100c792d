"""Filters, odometers and models of the papers that answers do not need."""
