"""Scenarios: their sections and keys, their files and presets, and the files that scenarios name."""
