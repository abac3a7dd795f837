"""Decisions as pure functions of numbers: routers call them, and the array engine compiles them into its kernels.

Only scores decide with doubles. To get the same bits on every machine, they use only + - * / and comparisons, in the
order that is written, without fused operations and without libm. Counts and times are integers below 2^53, which a
double holds exactly.
"""
