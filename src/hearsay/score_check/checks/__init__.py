"""The checks, one subject a file; `all_checks.py` has them in their order."""
