"""A subset of HTTP/1.1: each connection has one request and one response."""
