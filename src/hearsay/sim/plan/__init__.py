"""The decisions that precede a run: dials, latencies, publications, faults, and the choice of an engine."""
