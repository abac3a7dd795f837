"""Decisions as pure functions of numbers: routers call them, and the array engine compiles them into its kernels.

Scores, the gater and the share of peers that get gossip use doubles. To get the same bits on every machine, they use
only + - * / and comparisons, in the written order, without fused operations and without libm. Counts and times are
integers below 2^53, which a double holds exactly. `randomness` has the hash behind every draw.
"""
