"""The results of a run: rows, counters and its summary."""
