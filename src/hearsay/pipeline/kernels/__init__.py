"""What a Spark task does with one trace file at once, in numpy."""
