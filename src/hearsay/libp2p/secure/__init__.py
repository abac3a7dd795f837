"""The secure channel: Noise."""
