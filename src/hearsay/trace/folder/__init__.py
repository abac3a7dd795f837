"""Files and folders of a run, their Parquet form, and their writers.

A file appears whole or not at all. A folder has a marker, and a manifest of its files.
"""
