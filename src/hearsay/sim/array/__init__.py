"""The array engine: the routers' rules as machine code over arrays, for networks of thousands to millions of nodes.

`world/layout.py` explains the arguments that kernels share (`w`, `th`, `slot`, …) and the arrays that kernels use.
"""
