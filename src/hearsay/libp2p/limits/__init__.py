"""Limits of the memory and the rates of peers."""
