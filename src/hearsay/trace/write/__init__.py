"""From rows to the files of a run, memory bounded."""
