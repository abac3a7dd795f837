"""Decisions over numbers: called by routers, and compiled for the kernels of the array engine.

Scores are the one place where doubles decide. So that every machine gets the same bits: only + - * / and comparisons,
in the order that is written, no fused operations, nothing of libm. Counts and times are integers below 2^53 and
become doubles without loss.
"""
