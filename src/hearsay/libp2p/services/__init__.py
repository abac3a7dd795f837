"""Services on streams: identify, ping and rendezvous, and signed peer records."""
