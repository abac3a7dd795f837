"""The figures of the report: one module per subject, result tables in, charts as data out."""
