"""One run out of many pieces: numbers, clocks, messages, and who does the work."""
