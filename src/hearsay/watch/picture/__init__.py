"""The state of the picture: rows of a trace in, changes for browsers out; pure, and bounded."""
