"""The pubsub wire format: RPCs as protobuf bytes, framing, signatures, message ids, splitting."""
