"""Episub as kernels: for each topic a broadcast tree and an overlay, for each router a timer and connections."""
