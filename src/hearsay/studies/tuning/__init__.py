"""Tuning: a search of the axes of a scenario for the parameters with the best value of a metric, within bounds.

`search.py` defines the terms.
"""
