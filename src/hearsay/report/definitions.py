"""What the figures mean, in short; `docs/metrics.md` has the formulas."""

from __future__ import annotations

DEFINITIONS: dict[str, tuple[str, str]] = {
    "delivery": (
        "Delivery",
        "The application at a node gets a message, at most once per node and message. Latency, hops and copies are over "
        "deliveries away from the publisher.",
    ),
    "eligible": (
        "Eligible",
        "A node that was in the topic from a message's publication until the end of its window. Who left, went down or "
        "came late is not eligible, whatever it received.",
    ),
    "headline": (
        "Delivery ratio",
        "Deliveries to eligible nodes over what was due to them: 1 means that every message reached every eligible node.",
    ),
    "messages": (
        "Figures of a message",
        "Who should have got it, who did, how fast and with how many copies. A copy is a message part that arrived, used "
        "or not; copies per delivery is copies over deliveries away, and 1 is the least possible. Where a curve has fewer "
        "points than there are messages, a point is the median p50, and the worst p99, of the messages of its stretch.",
    ),
    "latency": (
        "Latency",
        "Time of delivery less time of publication, over deliveries away from the publisher. Percentiles interpolate "
        "linearly. Between real nodes this compares two clocks.",
    ),
    "traffic": (
        "Load per node",
        "Bytes of all that a node sent, framing included. The curve orders the nodes from the least to the most busy; the "
        "flatter, the more even. A node without a row sent nothing.",
    ),
    "control": (
        "Control",
        "Everything sent that is not a message: subscriptions, gossip (IHAVE, IWANT), mesh upkeep (GRAFT, PRUNE) and what "
        "a router adds. Its share is of all bytes sent.",
    ),
    "balance": (
        "Load balance",
        "The busiest node's bytes over the mean, and the Gini coefficient: 0 when all nodes send alike, near 1 when one "
        "node sends all.",
    ),
    "mesh": (
        "Mesh",
        "Links over which messages are pushed, at sampled times. The degree is the number of a node's links; components "
        "are pieces without a link between them; a link is mutual when both ends have it.",
    ),
    "degrees": ("Mesh degrees", "How many nodes have how many links, at the last sampled time."),
    "mesh_links": (
        "Picture of the mesh",
        "Links at the last sampled time; of a large mesh those among a sample of its nodes, which then seems thinner than "
        "it is. Linked nodes are drawn near each other; the places mean nothing else.",
    ),
    "churn": (
        "Churn",
        "Second by second: the nodes that are up, and the delivery ratio of the messages published then. Where a point "
        "stands for several seconds, the fewest nodes up and the ratio over all of them.",
    ),
    "resilience": (
        "Resilience",
        "The delivery ratio of messages published before, during and after disturbances (nodes going down, links "
        "failing), and the time until delivery was back.",
    ),
    "state": (
        "State",
        "What a node remembers to do its part: subscriptions, peers, seen ids, cached messages, links; in entries and in "
        "bytes, over the nodes sampled at a time.",
    ),
    "quality": ("Quality of the trace", "Checks of the trace itself. What they find limits what the figures can say."),
    "spread": (
        "Spread of a message",
        "First deliveries of one typical message: from whom, after what time, over how many hops and why the copy was "
        "sent. Of a large network a sample; a node whose sender is not drawn has no line.",
    ),
}
"""Title and text, by the name of a result table or the word defined."""
