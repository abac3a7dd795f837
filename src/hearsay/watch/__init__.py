"""A page that shows a network while it runs: trace rows go in, frames for browsers come out."""
