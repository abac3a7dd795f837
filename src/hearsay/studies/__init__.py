"""Studies: many runs of a scenario with declared changes, and statistics of the metrics of these runs.

Terms:

* A metric is a number about a run, such as the latency. Identifiers, files and options call it a figure.
* An axis is one or several keys of a scenario. Its steps are the values that these keys get.
* A point is a combination of one step of each axis, that is, a scenario.
* A run is a simulation of a point with one seed. Its result is a row: metrics, or the error of a failed run.
* A pack is a list of runs that one process or one task of Spark executes one after the other.
"""

LAST_FIRST_SEED = 10**15
"""Largest first seed of a comparison. A tuning uses only smaller seeds, so that its results can be compared again."""
