"""First on the path, this stands in for PyNaCl, as if it were not installed."""

raise ImportError
