"""The trace format: events as rows of integers, their hash, their order, and derived rows.

`places` has the folders of caches. `compiled_code` compiles functions, and stores their machine code there.
"""
