"""Finding peers, and where they are."""
