"""The interface between routers and drivers: events, actions, RPCs, and the names of peers, topics and messages.

A driver is a program that runs a router: a node, the simulator or a test. It passes events to the router and carries
out the actions that the router returns. RPCs are the packets that routers exchange.
"""
