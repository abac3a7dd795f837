"""The trace format: events as rows of integers, their hash, their order, and derived rows.

`places` and `compiled_code` have the places of caches, and the code in them.
"""
