"""Discovery of peers and of their addresses."""
