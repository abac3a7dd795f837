"""Studies: many runs of a scenario that differ in known ways, and what follows from their figures."""
