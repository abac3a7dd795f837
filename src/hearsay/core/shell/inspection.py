"""The state of a router as a table (guide, "State"), and its size."""

from __future__ import annotations

from hearsay.core.language.identifiers import Micros, PeerId, TopicId
from hearsay.core.language.sizes import identifier_size, message_size
from hearsay.core.language.state import Peering, PeerState, RouterState, SeenState, StateSize
from hearsay.core.shell.seen import entries
from hearsay.core.shell.strategy import Shell, Strategy


def known_peers(shell: Shell, strategy: Strategy) -> dict[PeerId, dict[TopicId, Peering]]:
    """Return all peers of the state table, each with its peerings by topic."""
    peerings: dict[PeerId, dict[TopicId, Peering]] = {peer: {} for peer in shell.connected}
    for topic, view in shell.peers.topics.items():
        for peer in (*view.native, *view.flood):
            peerings.setdefault(peer, {})[topic] = Peering.METADATA_ONLY
    for topic, peer, peering in strategy.peerings():
        peerings.setdefault(peer, {})[topic] = peering
    return peerings


def knows(shell: Shell, strategy: Strategy, peer: PeerId) -> bool:
    """Return whether a peer is in the state table."""
    return (
        peer in shell.connected
        or any(peer in view for view in shell.peers.topics.values())
        or any(peer == known for _, known, _ in strategy.peerings())
    )


def router_state(shell: Shell, strategy: Strategy) -> RouterState:
    """Return the state table."""
    peerings = known_peers(shell, strategy)
    protocols = {peer: known.protocol for peer, known in shell.connected.items()}
    return RouterState(
        subscriptions=tuple(sorted(shell.joined)),
        fanout=tuple(strategy.fanout_topics()),
        peers=tuple(
            PeerState(peer, protocols.get(peer, ""), tuple(sorted(peerings[peer].items())))
            for peer in sorted(peerings)
        ),
        seen=tuple(
            SeenState(entry.message_id, entry.first_us, entry.sender, strategy.holds(entry.message_id))
            for entry in entries(shell.seen, shell.now)
        ),
    )


def size_of_state(shell: Shell, strategy: Strategy, now: Micros) -> StateSize:
    """Return the number of entries, and the bytes, of the state table and of other state."""
    count = len(shell.joined)
    size = sum(map(identifier_size, shell.joined))
    count += len(shell.connected)
    size += sum(map(identifier_size, shell.connected))
    for topic, view in shell.peers.topics.items():
        members = len(view.native) + len(view.flood)
        count += members
        size += members * identifier_size(topic)
    shell.seen.expire(now)
    for message_id, _, _ in shell.seen.first_copies():
        count += 1
        size += identifier_size(message_id) + 8
    for message in strategy.held_messages():
        count += 1
        size += message_size(message)
    for topic, peer, _ in strategy.peerings():
        count += 1
        size += identifier_size(topic) + identifier_size(peer)
    for peer in strategy.other_state():
        count += 1
        size += identifier_size(peer)
    return StateSize(count, size)
