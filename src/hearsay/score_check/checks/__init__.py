"""The checks, one subject per file; `all_checks.py` has them in order."""
