"""What a simulation is about: sections and keys, files and presets, the tables they name."""
