"""The host: it listens, dials and admits."""
