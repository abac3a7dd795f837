"""Functions for tests that call a scorer directly, as go's tests do."""

from __future__ import annotations

from typing import Any

from hearsay.core.scores.declarations import Validation
from hearsay.core.scores.score_parameters import PeerScoreParameters, TopicNumbers
from hearsay.core.scores.scorer import Scorer

TOPIC = "topic"
MS = 1_000
SECOND = 1_000_000
GO_NUMBERS = TopicNumbers(weight=1.0, quantum=SECOND, first_decay=1.0, mesh_decay=1.0, invalid_decay=1.0)
"""Numbers without decay, as in go's tests; the parameters would reject a decay of 1."""


def scorer(*peers: str, peer: dict[str, Any] | None = None, **topic: Any) -> Scorer:
    """Return a scorer with connected peers and one topic, whose numbers are `GO_NUMBERS` except the given ones."""
    own = {"validation": Validation.SELECTIVE, "decay_interval_ms": 1_000, "decay_to_zero": 0.01, **(peer or {})}
    made = Scorer(PeerScoreParameters(**own), {TOPIC: GO_NUMBERS._replace(**topic)})
    for name in peers:
        made.connect(name)
    return made


def deliver(made: Scorer, peer: str, count: int, now: int = 0, prefix: str = "") -> None:
    """Deliver `count` new messages, each first received from `peer` and accepted at once."""
    for number in range(count):
        message = f"{prefix}{peer}-{number}"
        made.validate(TOPIC, message, now)
        made.deliver(peer, TOPIC, message, now)


def sizes(made: Scorer) -> dict[str, int]:
    """Return the sizes of the collections that peers can make grow; fail if a size is above its limit."""
    own, peers = made._parameters, made._peers.values()
    bounded = {
        "delivery records": (len(made._deliveries), own.max_deliveries),
        "retained peers": (len(made._retained), own.max_retained_peers),
        "topic counters": (sum(len(peer.topics) for peer in peers), len(peers) * len(made._topics)),
        "addresses": (len(made._addresses), 2 * own.max_addresses_per_peer * len(peers)),
    }
    assert all(size <= limit for size, limit in bounded.values())
    return {name: size for name, (size, _) in bounded.items()}
