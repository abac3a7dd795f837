"""The routers meshsub and gossipsub, and their parts: mesh, fan-out, gossip, standing, extensions, partial
messages."""
