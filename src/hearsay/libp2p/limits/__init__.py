"""Limits of the memory that peers cause, and of their rates."""
