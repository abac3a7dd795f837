"""Metrics of a node in OpenMetrics, its health and its readiness."""
