"""The functions and classes of the Python interface, which `import hearsay` offers."""
