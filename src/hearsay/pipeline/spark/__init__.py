"""The use of Spark: Java, the JVM, a session, its failures, and its folders."""
