"""A host that runs on py-libp2p, with QUIC, WebSocket and the DHT. It needs the extra `libp2p`."""
