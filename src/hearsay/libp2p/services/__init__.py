"""Small protocols on streams: identify, ping, rendezvous, and the records they carry."""
