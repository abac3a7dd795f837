"""Gossipsub 1.3: what peers tell each other that they can do beyond their version, and partial messages."""
