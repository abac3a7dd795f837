"""The state of a router as a table (guide, "State"), and its size."""

from __future__ import annotations

from hearsay.core.language.identifiers import Micros, PeerId, TopicId
from hearsay.core.language.sizes import identifier_size, message_size
from hearsay.core.shell.guarantees import Peering, PeerState, RouterState, SeenState, StateSize
from hearsay.core.shell.strategy import Shell, Strategy


def knows(shell: Shell, strategy: Strategy, peer: PeerId) -> bool:
    """Return whether a peer is in the state table (`router_state`)."""
    return (
        peer in shell.connected
        or any(peer in view for view in shell.peers.topics.values())
        or any(peer == known for _, known, _ in strategy.peerings())
    )


def router_state(shell: Shell, strategy: Strategy) -> RouterState:
    """Return the state table: a snapshot at the time `shell.now`."""
    peerings: dict[PeerId, dict[TopicId, Peering]] = {peer: {} for peer in shell.connected}
    for topic, view in shell.peers.topics.items():
        for peer in (*view.native, *view.flood):
            peerings.setdefault(peer, {})[topic] = Peering.METADATA_ONLY
    for topic, peer, peering in strategy.peerings():
        peerings.setdefault(peer, {})[topic] = peering
    protocols = {peer: known.protocol for peer, known in shell.connected.items()}
    shell.seen.expire(shell.now)
    return RouterState(
        subscriptions=tuple(sorted(shell.joined)),
        fanout=tuple(strategy.fanout_topics()),
        peers=tuple(
            PeerState(peer, protocols.get(peer, ""), tuple(sorted(peerings[peer].items())))
            for peer in sorted(peerings)
        ),
        seen=tuple(
            SeenState(message_id, first_us, sender, strategy.holds(message_id))
            for message_id, first_us, sender in shell.seen.first_copies()
        ),
    )


def size_of_state(shell: Shell, strategy: Strategy, now: Micros) -> StateSize:
    """Return the number of entries of the state at the time `now`, and their bytes. Entries are topics, peers,
    subscriptions of peers, ids in the seen cache, stored messages, peerings, and `Inspection.other_state`."""
    sizes = [identifier_size(name) for name in (*shell.joined, *shell.connected)]
    for topic, view in shell.peers.topics.items():
        sizes += [identifier_size(topic)] * (len(view.native) + len(view.flood))
    shell.seen.expire(now)
    sizes += [identifier_size(message_id) + 8 for message_id, _, _ in shell.seen.first_copies()]
    sizes += map(message_size, strategy.held_messages())
    sizes += [identifier_size(topic) + identifier_size(peer) for topic, peer, _ in strategy.peerings()]
    sizes += map(identifier_size, strategy.other_state())
    return StateSize(len(sizes), sum(sizes))
