"""Streams: the negotiation of protocols, Yamux, and the connection that carries the streams."""
