"""The shell, which all routers share: peers, subscriptions, seen messages, outbox and parameters."""
