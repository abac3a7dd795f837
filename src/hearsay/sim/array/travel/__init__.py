"""RPCs that nodes send, and how they travel."""
