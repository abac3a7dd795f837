"""A host on py-libp2p with QUIC, WebSocket and the DHT; needs the extra `libp2p`."""
