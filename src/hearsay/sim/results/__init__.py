"""What a run leaves: rows and counters, its summary, several runs side by side."""
