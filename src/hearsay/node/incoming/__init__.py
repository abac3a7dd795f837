"""What peers send, from bytes to a verdict."""
