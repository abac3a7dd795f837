"""A subset of HTTP/1.1 for a node's pages: one request, one answer, and the connection ends."""
