"""Small real data with its provenance, and generators of data of any size."""
