"""The trace of a run: rows about events, the hash of the rows, their files, and functions that read the files.

This module imports nothing, so that an import of `hearsay.trace.language.schema` does not load numpy or pyarrow.
"""
