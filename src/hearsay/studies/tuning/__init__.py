"""Tuning: search the axes of a scenario for the parameters that do best within bounds."""
