"""The functions and classes behind the names of `import hearsay`."""
