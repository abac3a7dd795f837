"""What is known of a run before a row is read, and its rows."""
