"""The checker, which watches a run for broken invariants."""
