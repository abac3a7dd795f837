"""Streams: the choice of a protocol, Yamux, and a connection that carries it all."""
