"""Explanations of one message of a run: the path to a delivery, the slowest deliveries, and missing deliveries."""
