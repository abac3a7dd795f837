"""A node on a py-libp2p host, for QUIC, WebSocket, the DHT and whatever else py-libp2p has: the extra `libp2p`."""
