"""The reference engine: a queue of events and the real routers."""
