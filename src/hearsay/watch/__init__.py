"""A page that shows a network while it runs: trace rows update a picture, and browsers receive its changes."""
