"""Everything that is decided before a run: dials, latencies, publications, faults, and the engine."""
