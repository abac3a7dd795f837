"""The trace: one row per event, its hash, its files and the tools that read them.

Nothing is imported here, so that `hearsay.trace.language.schema` costs no numpy or pyarrow.
"""
