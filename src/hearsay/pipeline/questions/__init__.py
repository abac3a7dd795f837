"""One module per question: functions from DataFrames of trace rows to DataFrames of figures.

`pipeline/output/tables.toml` describes the tables and their columns. Tables over time have a row for each stretch: an
interval of `stretch_s` seconds (`rows.stretch_s`), whose columns `second` and `seconds` are its start and length.
"""
