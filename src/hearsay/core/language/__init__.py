"""The language of routers and their drivers: events in, actions out, RPCs between peers, names."""
