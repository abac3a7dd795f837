"""A node on a py-libp2p host, for QUIC, WebSocket, the DHT and other features of py-libp2p: the extra `libp2p`."""
