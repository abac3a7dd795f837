"""The language of traces: events as rows of integers, their hash, their order, what follows from them."""
