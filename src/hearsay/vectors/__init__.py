"""Test vectors for implementations of gossipsub: reading, validation and execution of vector files.

A vector is a list of steps for a scorer or a router. A step has an event and the results that are expected after it.
"""
