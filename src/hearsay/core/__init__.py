"""The routers: pure state machines without I/O, clock or ambient randomness. Standard library only."""
