"""The queries that compute tables. A module has the queries about one subject, such as latencies.

`pipeline/output/tables.toml` describes the result tables and their columns. Other functions return intermediate
tables, which only queries read.

Words of this package:

* A *stretch* is an interval of `stretch_s` seconds (`rows.stretch_s`). Tables over time have a row for each stretch;
  the columns `second` and `seconds` are its start and its length.
* A *delivery away* is a delivery at another node than the publisher.
* A *copy* is the publish part of an RPC: a message on its way from one node to another.
* The *window* of a message begins with its publication and lasts `window_us`, or until the end of the run if that is
  earlier.
"""
