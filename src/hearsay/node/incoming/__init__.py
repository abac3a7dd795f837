"""Input of peers: streams, signatures on threads, validators."""
