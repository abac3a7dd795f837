"""Limits of memory and rates that peers cause."""
