"""Compilation of kernels, and memory of arrays. Nothing here depends on gossip."""
