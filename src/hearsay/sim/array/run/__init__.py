"""The run itself: buckets of events, memory used again, samples of state."""
