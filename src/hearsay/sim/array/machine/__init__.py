"""Kernels and memory: how they are compiled and what they hold. Knows nothing of gossip."""
