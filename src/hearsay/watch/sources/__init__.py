"""Sources of rows: a simulation, a run folder, or nodes."""
