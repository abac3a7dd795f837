"""Episub: proximity-aware epidemic broadcast trees. `episub.py` has the router."""
