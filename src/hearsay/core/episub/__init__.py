"""Episub: proximity-aware epidemic broadcast trees. `router.py` is the table of contents."""
