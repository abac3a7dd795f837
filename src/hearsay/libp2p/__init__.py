"""libp2p: sans-I/O layers (bytes in, bytes and events out) and one asyncio host that joins them."""
