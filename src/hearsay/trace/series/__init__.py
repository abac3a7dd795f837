"""Runs written bit by bit by a process that may be killed at any time."""
