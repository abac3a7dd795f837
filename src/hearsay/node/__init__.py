"""The pubsub node: a router of the core, the wire format, and a libp2p host."""
