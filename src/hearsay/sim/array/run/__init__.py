"""The run itself: buckets of events, faults, samples of state, reuse of memory."""
