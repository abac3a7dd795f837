"""The formats there are: what a file is, and how it is read piece by piece."""
