"""Test vectors for any implementation: files with events and expected results, which are read, checked and run."""
