"""Parts that all routers share: the shell around a strategy, peers, seen messages, outbox, randomness, parameters."""
