"""The pubsub node: a router of the core, the wire form, and a libp2p host."""
