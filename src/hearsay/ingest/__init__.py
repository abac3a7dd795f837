"""Traces of real networks become run folders: decode, number the names, write, estimate the clocks."""
