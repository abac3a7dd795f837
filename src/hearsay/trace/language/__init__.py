"""The trace format: events as rows of integers, their hash, their order, and derived rows."""
