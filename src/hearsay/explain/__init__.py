"""Explanations of a message of a run: the path of a first copy, slow deliveries, missing deliveries."""
