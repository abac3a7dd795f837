"""What all routers share: the shell around a strategy, peers, messages seen, the outbox, chance, parameters."""
