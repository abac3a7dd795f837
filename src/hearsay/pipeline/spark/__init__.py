"""Spark itself: Java, its JVM, a session, its failures, its paths."""
