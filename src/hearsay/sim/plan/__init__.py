"""What is decided before a run starts: who dials whom, how long RPCs travel, what is published, which engine."""
