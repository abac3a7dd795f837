"""Kernels that send the RPCs of nodes, and delay or lose them on their way."""
