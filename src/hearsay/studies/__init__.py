"""Studies: many runs of a scenario with declared changes, and the statistics of their figures."""
