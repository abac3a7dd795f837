"""Meshsub and gossipsub, and what a mesh needs: backoff, fan-out, a cache of messages."""
