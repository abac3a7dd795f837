"""Scores of peers (gossipsub v1.1), the promises of IWANT, and the gater, without a router, a clock or randomness.

A router with scores owns one `Scorer`, one `IwantPromises` and, with parameters of the gater, one `Gater`. The
router calls them as follows:

| when | call |
| --- | --- |
| a peer connects | `connect` of `Scorer` (with the addresses of the peer) and `Gater` |
| a peer disconnects | `disconnect` of `Scorer` and `Gater` |
| the addresses of a peer change | `Scorer.set_addresses` |
| a peer enters a mesh | `Scorer.graft` |
| a peer leaves a mesh, or a peer that is no member sends PRUNE | `Scorer.prune` |
| an RPC comes | `Scorer.score`, to compare with `graylist`; `Gater.lets_in`; `IwantPromises.void` if that is False |
| the first copy of a message comes, before validation | `validate` of `Scorer` and `Gater`; `IwantPromises.keep` |
| a message is accepted, or this router publishes it | `deliver` of `Scorer` and `Gater`; `IwantPromises.keep` |
| a message is rejected, ignored or throttled | `reject` of `Scorer`, `Gater` and `IwantPromises` |
| a later copy of a message comes | `duplicate` of `Scorer`, `Gater` and `IwantPromises` |
| the router sends an IWANT | `IwantPromises.ask` |
| a heartbeat, before the upkeep of meshes | `IwantPromises.take_broken`, and for each peer `Scorer.penalise` |
| a GRAFT in backoff or, with nim, of a direct peer; a late extensions control | `Scorer.penalise` |
| messages to a peer could not be sent | `Scorer.penalise_slow` |
| the application finds parts of a peer useful, or invalid | `Scorer.credit`, or `Scorer.blame` |
| the application scores a peer | `Scorer.set_application_score` |
| a topic gets parameters | `Scorer.set_topic_parameters` and `Gater.weigh` |
| every `decay_interval_ms` of the score | `Scorer.refresh` |
| every `decay_interval_ms` of the gater | `Gater.refresh` |

When a refresh and a heartbeat are due at the same microsecond, the refresh comes first (rust), so that the heartbeat
uses current times in meshes. Then the heartbeat takes the broken promises. It reads each score once and uses this
value until its end, except for gossip (STANDING-2). Times are in microseconds and never decrease. A router's deadline
must not be later than the next refresh.

Modules import from left to right: `declarations` → `score_parameters`, `promises` → `records`, `gater` → `scorer` →
`named_sets`. Decisions are in `core.rules`.
"""
