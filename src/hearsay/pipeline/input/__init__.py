"""The facts of a run that are known before its rows are read, and its rows."""
