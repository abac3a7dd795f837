"""Decisions of scores, promises and the gater over numbers.

Scores are the one place where doubles decide. So that every machine gets the same bits: only + - * / and comparisons,
in the order that is written, no fused operations, nothing of libm. Counts and times are integers below 2^53 and
become doubles without loss.
"""
