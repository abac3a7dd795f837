"""Scenarios: sections and keys, files and presets, and the tables that they name."""
