"""HTTP/1.1 as far as a node's own pages need it: one request, one answer, and the connection ends."""
