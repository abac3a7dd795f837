"""The kernels of episub: a broadcast tree and an overlay for each topic, a timer and connections for each router."""
