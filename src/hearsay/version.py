"""The version, said once: the package index, the command and what is written by this program read it from here."""

__version__ = "0.2.0"
