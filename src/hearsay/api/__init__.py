"""The front door: what programs use, behind the names that `import hearsay` gives."""
