"""The trace: one row per event, its hash, its files and the tools that read them.

Nothing is imported here, so that an import of `hearsay.trace.language.schema` does not load numpy or pyarrow.
"""
