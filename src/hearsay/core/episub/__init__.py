"""Episub: proximity-aware epidemic broadcast trees. `episub.py` is the router."""
