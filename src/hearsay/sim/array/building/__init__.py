"""From a plan to the arrays of a run, as they are before it starts."""
