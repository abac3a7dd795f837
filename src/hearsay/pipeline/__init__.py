"""Traces to answers, on Spark."""
