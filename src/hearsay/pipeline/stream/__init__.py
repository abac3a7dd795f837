"""Tables kept fresh while a run or a node writes.

Spark's Structured Streaming says which files are new, each exactly once (`new_files`). The ledger keeps what must be
known of every file taken (`ledger`, `file_notes`). Partial sums are functions of their inputs alone and named by them
(`partials`), so what has not changed is not computed again, and a crash at any point can neither lose nor double a
row. The tables are made from the partial sums by the same code as in a batch analysis (`follow`).
"""
