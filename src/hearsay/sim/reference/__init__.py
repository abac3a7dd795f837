"""The reference engine: a queue of events and the routers of the core."""
