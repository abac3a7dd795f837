"""Meshsub and gossipsub: mesh, backoffs, fan-out, gossip, message cache, standing, extensions, partial messages."""
