"""Reading the files of a run: rows, checks, comparison, and lines for people."""
