"""Decisions over numbers: called by routers, and compiled for the kernels of the array engine."""
