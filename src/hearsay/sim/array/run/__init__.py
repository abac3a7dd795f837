"""Kernels that carry out a run: buckets of events, faults, samples of state, reuse of memory."""
