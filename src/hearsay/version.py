"""The version of the distribution. `hearsay --version` prints it, and written files contain it."""

__version__ = "0.2.0"
