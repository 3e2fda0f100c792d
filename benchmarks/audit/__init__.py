"""The audit: does anything but a charged, noised answer tell of one person's rows?

python -m benchmarks.audit                 search for an hour; exit code 1 on a finding
python -m benchmarks.audit planted         is every planted leak found, and after how many seconds?
python -m benchmarks.audit bounds          what answers alone show of epsilon
python -m benchmarks.audit timing          what the clock tells
python -m benchmarks.audit hostile         hostile texts

docs/audit.md says what it compares and what it can't see.
"""
