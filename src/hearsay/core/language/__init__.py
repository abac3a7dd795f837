"""What routers and their drivers say to each other: events in, actions out, RPCs between peers, names."""
