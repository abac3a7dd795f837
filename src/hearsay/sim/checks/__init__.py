"""The checker: invariants that hold in every run."""
