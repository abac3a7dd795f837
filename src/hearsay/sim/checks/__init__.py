"""Invariants that hold in every run, kept in books of their own."""
