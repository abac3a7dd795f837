"""Hearsay: gossip publish/subscribe. One router for the simulator, the node and the tests."""
