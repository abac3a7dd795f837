"""The array engine: the routers' rules over arrays, in machine code, for networks of thousands to millions.

`world/layout.py` explains the arguments that kernels share (`w`, `th`, `slot`, …) and the arrays that they use.
"""
