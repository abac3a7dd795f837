"""Checks of messages: signatures on threads, validators, sequence numbers."""
