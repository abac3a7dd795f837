"""Test vectors that any implementation can run: files of events and what must come of them, read, checked and run."""
