"""The routers, as pure state machines. They do no I/O and read no clock, draw all random numbers from a seed, and
import only the standard library."""
