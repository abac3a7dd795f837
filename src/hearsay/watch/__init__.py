"""A page that shows a network while it runs: trace rows go in, frames (the changes to show) go out to browsers."""
