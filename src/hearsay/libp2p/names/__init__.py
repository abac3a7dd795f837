"""Names and encodings of libp2p: keys, peer ids, addresses, varints, protobuf fields."""
