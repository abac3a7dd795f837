"""The use of Spark: Java and its JVM, sessions, failures in one line, and folders for temporary files."""
