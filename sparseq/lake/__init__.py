"""A store on many machines: the same step on many buckets of users (docs/lake.md)."""
