"""libp2p: layers without I/O (bytes in, bytes and events out), and an asyncio host that connects the layers."""
