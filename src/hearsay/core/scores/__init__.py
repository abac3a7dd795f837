"""Scores of peers (gossipsub v1.1), the promises of IWANT, and the gater, without a router, a clock or randomness.

A router owns one `Scorer`, one `Promises` and, if it gates, one `Gater`, for the node's whole life, and calls:

| when | call |
| --- | --- |
| a peer connects, disconnects | `Scorer.connect` with its addresses, `disconnect`; the same of `Gater` |
| its addresses change | `Scorer.set_addresses` |
| a peer enters or leaves a mesh | `Scorer.graft`, `prune`; a PRUNE of a peer that is not a member, too |
| an RPC comes | `Scorer.score` against `graylist`; then `Gater.lets_in`; if not: control only, and `Promises.void` |
| a first copy goes to validation | `Scorer.validate`, `Gater.validate`, `Promises.keep`, in this order |
| … is accepted; one's own is published | `Scorer.deliver`, `Gater.deliver`, `Promises.keep` |
| … is rejected, ignored, or finds no room | `reject` of all three |
| a copy of a message that was seen | `duplicate` of `Scorer` and `Gater` |
| an IWANT leaves | `Promises.ask` |
| a heartbeat, before meshes are looked at | `Promises.take_broken`, and for each peer `Scorer.penalise` |
| a GRAFT in backoff | `Scorer.penalise` |
| every `decay_interval_ms` | `Scorer.refresh`; `Gater.refresh` every interval of its own |

When a refresh and a heartbeat are due at the same microsecond, the refresh comes first (rust), so that the heartbeat
sees present times and activations; then the broken promises. A heartbeat reads each score once and keeps to it. All
`now` are in microseconds and never decrease. A router's deadline must include the next refresh.

Inside: `choices`, `numbers`, `decays`, `declarations` → parameters → `counters`, `deliveries`, `addresses`,
`retained` → `scorer`, `promises`, `gater` → `score_set` → `sets`. Decisions are in `core.rules`.
"""
