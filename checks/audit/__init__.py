"""The audit: does anything other than a charged, noised answer reveal one person's rows?

python -m checks.audit                 search for an hour; exit code 1 on a finding
python -m checks.audit planted         is every planted leak found, and after how many seconds?
python -m checks.audit bounds          what answers alone show of epsilon
python -m checks.audit timing          what running times reveal
python -m checks.audit hostile         hostile texts

docs/audit.md describes what it compares and what it can't detect.
"""
