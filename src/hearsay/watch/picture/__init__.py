"""The state of the picture: trace rows go in, changes for browsers go out. It is bounded and performs no I/O."""
