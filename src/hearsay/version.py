"""The version of the distribution, of the command, and of the program in the files that it writes."""

__version__ = "0.2.0"
