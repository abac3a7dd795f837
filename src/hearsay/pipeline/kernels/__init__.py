"""Work of a Spark task on one trace file at once, in numpy."""
