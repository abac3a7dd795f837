"""Links that come and go, and what goes wrong."""
