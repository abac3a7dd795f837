"""Requests of browsers: pages, frames as server-sent events, and actions of users."""
