"""The state of a run as arrays: nodes, neighbours, messages, the queue, the record."""
