"""Episub as kernels: for each topic a broadcast tree and a membership, for each router a timer and connections."""
