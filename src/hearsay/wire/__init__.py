"""The wire format of pubsub: RPCs as protobuf bytes, signatures, message ids, and the splitting of large RPCs."""
