"""The figures that sparseq promises: `make bench`, or `python -m benchmarks [NAME…] [--json]`."""
