"""Dashboards: panels that are looked at every morning, answered from common cells."""
