"""A store on many machines: the same step on many buckets of people (docs/lake.md)."""
