"""The interface between routers and drivers: events in, actions out, RPCs between peers, names."""
