"""Streams: the choice of a protocol, Yamux, and the connection that carries them."""
