"""Scores of peers (gossipsub v1.1), the promises of IWANT, and the gater, without a router, a clock or randomness.

A router owns one `Scorer`, one `Promises` and, if it gates, one `Gater`, for the node's whole life, and calls:

| when | call |
| --- | --- |
| a peer connects, disconnects | `connect` with its addresses, `disconnect` of `Scorer` and `Gater` |
| its addresses change | `Scorer.set_addresses` |
| a peer enters or leaves a mesh | `Scorer.graft`, `prune`; a PRUNE of a peer that is not a member, too |
| an RPC comes | `Scorer.score` against `graylist`; then `Gater.lets_in`; if not: control only, and `Promises.void` |
| a first copy goes to validation | `Scorer.validate`, `Gater.validate`, `Promises.keep`, in this order |
| a message is accepted, or published here | `Scorer.deliver`, `Gater.deliver`, `Promises.keep` |
| a message is rejected, ignored, or finds no room | `reject` of all three |
| a copy of a message that was seen | `duplicate` of `Scorer` and `Gater` |
| an IWANT leaves | `Promises.ask` |
| a heartbeat, before the upkeep of meshes | `Promises.take_broken`, and for each peer `Scorer.penalise` |
| a GRAFT in backoff | `Scorer.penalise` |
| every `decay_interval_ms` | `Scorer.refresh`; `Gater.refresh` every interval of its own |

When a refresh and a heartbeat are due at the same microsecond, the refresh comes first (rust), so that the heartbeat
sees present times and activations. The broken promises come next. A heartbeat reads each score once and uses this
value throughout. All `now` are in microseconds and never decrease. A router's deadline must include the next refresh.

Modules import from left to right: `declarations` → `score_parameters`, `promises` → `records`, `gater` → `scorer` →
`score_set` → `named_sets`. Decisions are in `core.rules`.
"""
