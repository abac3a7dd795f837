"""The routers: pure state machines that import only the standard library, without I/O, clock or ambient
randomness."""
