"""A module that hides PyNaCl: if this folder is first on the path, `import nacl` fails as without PyNaCl."""

raise ImportError
