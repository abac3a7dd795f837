"""The pubsub wire form: RPCs as protobuf bytes, framing, signatures, message ids, splitting."""
