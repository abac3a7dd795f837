"""Peers that connect and disconnect, topics that are joined and left, and parts that are sent again (`core.shell`).

Layout: the `flags` of a peer for a topic have UNANNOUNCED if a SUBSCRIBE or UNSUBSCRIBE must be sent to the peer
again, and UNSENT if a GRAFT or PRUNE must be sent again. OWED of a node has each of the two bits that any slot of the
node has."""

from __future__ import annotations

from hearsay.core.language.actions import Reason
from hearsay.core.language.events import EventKind
from hearsay.core.language.sizes import TOPIC_VIEW_BYTES
from hearsay.core.mesh.mesh import MAX_UNSENT
from hearsay.sim.array.compiling import kernel
from hearsay.sim.array.episub.basics import NEVER, has_overlay, has_trees
from hearsay.sim.array.episub.overlay import (
    overlay_connected,
    overlay_disconnected,
    overlay_subscribed,
    overlay_unsent,
    overlay_unsubscribed,
    start_overlay,
    stop_overlay,
)
from hearsay.sim.array.episub.tree import join_tree, leave_tree, neighbour_down, neighbour_up, peer_removed
from hearsay.sim.array.rules.checks import check_sending, note_subscription
from hearsay.sim.array.rules.features import (
    announce_features,
    announce_features_again,
    note_unsent_features,
    send_subscription,
)
from hearsay.sim.array.rules.gater import (
    has_gater,
    restore_gater_counts,
    restore_score,
    retain_gater_counts,
    retain_score,
    retains_scores,
)
from hearsay.sim.array.rules.gossip import forget_fanout
from hearsay.sim.array.rules.mesh import (
    has_mesh,
    join_mesh,
    leave_mesh,
    peer_unsubscribed,
    remove_if_member,
    send_membership,
)
from hearsay.sim.array.rules.part_groups import forget_groups_of_peer, leave_groups
from hearsay.sim.array.rules.partials import partial_unsent
from hearsay.sim.array.rules.scores import forget_slot, mark_all_outdated, start_scoring_topic
from hearsay.sim.array.rules.unwanted import forget_unwanted, reset_counts
from hearsay.sim.array.rules.upkeep import graft_subscriber
from hearsay.sim.array.travel.outbox import flush, has_part_for
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.layout import (
    ANNOUNCE,
    ANNOUNCE_AGAIN,
    APPLICATION,
    CONNECTED,
    DIALLED,
    FANOUT,
    FEATURES_OWED,
    FLOODED,
    GOSSIPSUB,
    GRAFT_ON_SUBSCRIBE,
    HAS_FEATURES,
    HAS_LINKS,
    HAS_SCORES,
    HELLO,
    IN_FANOUT,
    JOINED,
    LINK_FLAGS,
    MAX_BYTES_OF_PEER,
    MAX_SUBSCRIPTION_BYTES,
    MAX_SUBSCRIPTIONS,
    NATIVE,
    NEWS,
    OUT_COUNT,
    OUTBOUND,
    OWED,
    PART_WORDS,
    ROUTER_KIND,
    STARTS,
    SUBSCRIBED,
    SUBSCRIPTION,
    TICK,
    TOPICS,
    TRACKS_SINCE,
    UNANNOUNCED,
    UNSENT,
    USES_12,
    WAITS_TO_ANNOUNCE,
    World,
    alarms,
    arena,
    clear_traits,
    control,
    flags,
    links32,
    links_of,
    members,
    nodes32,
    peers,
    since_us,
    topics,
    words_at,
)
from hearsay.sim.array.world.payload import (
    FEATURES,
    GRAFT,
    PART_KIND,
    PART_TOPIC,
    PARTIAL,
    PRUNE,
    SUBSCRIBE,
    UNSUBSCRIBE,
    part_place,
)
from hearsay.sim.array.world.queue import push
from hearsay.sim.array.world.record import row
from hearsay.sim.array.world.slots import end_slot, first_slot, is_in, is_native, parameter, treatment
from hearsay.trace.language.event_rows import add_peer_row, join_row, leave_row, remove_peer_row

SENT_AGAIN = UNANNOUNCED | UNSENT


@kernel
def note_unsent(w: World, th: int, now: int, node: int, slot: int, rpc: int) -> None:
    """Mark the parts of an RPC that must be sent again, because the RPC could not be sent.

    These are subscriptions, GRAFTs, PRUNEs and extensions. Partial messages are not marked, but their notes are
    forgotten (`partial_unsent`).
    """
    owed = 0
    for index in range(arena(w)[rpc]):
        part = words_at(w, part_place(rpc, index))
        kind = part[PART_KIND]
        bit = 0
        if kind == SUBSCRIBE or kind == UNSUBSCRIBE:
            bit = UNANNOUNCED
        elif (kind == GRAFT or kind == PRUNE) and _is_sent_again(w, node, slot, part[PART_TOPIC]):
            bit = UNSENT
        elif w[HAS_FEATURES] and kind == FEATURES:
            note_unsent_features(w, node, slot)
        elif w[PART_WORDS] and kind >= PARTIAL:
            partial_unsent(w, node, slot, rpc, index)
        if bit:
            flags(w)[slot, part[PART_TOPIC]] |= bit
            owed |= bit
    nodes32(w)[node, OWED] |= owed
    if has_overlay(w, node):
        overlay_unsent(w, th, now, node, slot, rpc)
    if owed & UNANNOUNCED:
        _wait_to_announce(w, th, now, node)


@kernel
def _is_sent_again(w: World, node: int, slot: int, topic: int) -> bool:
    """Return whether a GRAFT or PRUNE that could not be sent is sent again.

    For topics that are not joined, the number of these parts is limited to MAX_UNSENT for each peer.
    """
    if not has_mesh(w, node):
        return False
    if w[TOPICS] <= MAX_UNSENT or is_in(w, node, topic):
        return True
    count = 0
    for each in range(w[TOPICS]):
        count += int(flags(w)[slot, each] & UNSENT != 0)
    return count < MAX_UNSENT


@kernel
def _wait_to_announce(w: World, th: int, now: int, node: int) -> None:
    """Set a timer to send subscriptions again, unless the router sends them again at its next heartbeat."""
    header = nodes32(w)[node]
    if has_trees(w, node):
        if alarms(w)[node, ANNOUNCE] == NEVER:
            alarms(w)[node, ANNOUNCE] = now + parameter(w, node, ANNOUNCE_AGAIN)
    elif not has_mesh(w, node) and not header[OWED] & WAITS_TO_ANNOUNCE:
        header[OWED] |= WAITS_TO_ANNOUNCE
        due = now + parameter(w, node, ANNOUNCE_AGAIN)
        push(w, th, due, node, EventKind.TIMER_FIRED, -1, header[STARTS], 0)


@kernel
def send_again(w: World, th: int, now: int, node: int, what: int) -> None:
    """Send subscriptions, GRAFTs and PRUNEs that could not be sent before (SHELL-5, MESH-4).

    Send them to each peer whose flags have a bit of `what` (UNANNOUNCED, UNSENT, both or none), and to each peer for
    which the outbox already has a part.
    """
    table = flags(w)
    left = 0
    for slot in range(first_slot(w, node), end_slot(w, node)):
        owed = 0
        for topic in range(w[TOPICS]):
            owed |= table[slot, topic] & SENT_AGAIN
        if not owed:
            continue
        if not owed & what and not has_part_for(w, th, slot):
            left |= owed
            continue
        for topic in range(w[TOPICS]):
            flag = table[slot, topic]
            table[slot, topic] = flag & ~SENT_AGAIN
            if flag & UNANNOUNCED:
                send_subscription(w, th, node, slot, topic, members(w)[node, topic] & JOINED != 0)
            if flag & UNSENT:
                send_membership(w, th, now, node, slot, topic)
    nodes32(w)[node, OWED] = nodes32(w)[node, OWED] & ~SENT_AGAIN | left


@kernel
def send_outbox(w: World, th: int, now: int, node: int) -> None:
    """Send the parts in the outbox. Their receivers also get the parts that could not be sent to them before."""
    if control(w)[th, OUT_COUNT]:
        if nodes32(w)[node, OWED] & SENT_AGAIN:
            send_again(w, th, now, node, 0)
        if w[HAS_FEATURES] and nodes32(w)[node, OWED] & FEATURES_OWED:
            announce_features_again(w, th, node)
    check_sending(w, th, now, node)
    flush(w, th, now, node)


ACCEPTED = -1
"""The result of `on_subscription`, in place of a reason, if the part is accepted."""
OVER_LIMIT = int(Reason.OVER_LIMIT)
THROTTLED = int(Reason.THROTTLED)
NO_MEMBER = -1
"""The value of `since_us` while the router has not joined the topic."""


@kernel
def connect(w: World, th: int, now: int, node: int, slot: int) -> None:
    """Add a peer to the router (SHELL-1)."""
    peer = peers(w)[slot]
    native = treatment(w, node, peer) != FLOODED
    table = flags(w)
    dialled = has_dialled(w, node, slot)
    row(w, th, add_peer_row(now, node, peer))
    hello = parameter(w, node, HELLO)
    if w[HAS_FEATURES]:
        clear_traits(w, slot)
        announce_features(w, th, node, slot)
    for topic in range(w[TOPICS]):
        table[slot, topic] = 0
        if hello:
            if members(w)[node, topic] & JOINED:
                send_subscription(w, th, node, slot, topic, True)
        elif members(w)[peer, topic] & APPLICATION:
            table[slot, topic] = SUBSCRIBED
        note_subscription(w, slot, topic, not hello and members(w)[peer, topic] & APPLICATION != 0)
    table[slot, 0] |= CONNECTED | (NATIVE if native else 0) | (DIALLED if dialled else 0)
    if retains_scores(w, node):
        restore_score(w, node, slot)
    elif w[HAS_SCORES]:
        forget_slot(w, slot)
    if w[HAS_SCORES]:
        mark_all_outdated(w, node)
    if has_gater(w, node):
        restore_gater_counts(w, node, slot)
    if w[USES_12]:
        reset_counts(w, slot)
    if has_overlay(w, node):
        overlay_connected(w, th, now, node, slot)
    elif has_trees(w, node) and native:
        for topic in range(w[TOPICS]):
            if table[slot, topic] & SUBSCRIBED:
                neighbour_up(w, th, now, node, slot, topic)


@kernel
def has_dialled(w: World, node: int, slot: int) -> bool:
    """Return whether the node's dial made the connection; if two nodes dial each other, the first dial counts."""
    if w[HAS_LINKS]:
        return links32(w)[links_of(w)[slot], LINK_FLAGS] & OUTBOUND != 0
    flag = flags(w)[slot, 0]
    return flag & DIALLED != 0 and not (flag & NATIVE != 0 and peers(w)[slot] < node)


@kernel
def disconnect(w: World, th: int, now: int, node: int, slot: int) -> None:
    """Remove a peer from the router; its slot remains."""
    table = flags(w)
    peer = peers(w)[slot]
    if has_gater(w, node):
        retain_gater_counts(w, now, node, slot)
    if retains_scores(w, node):
        retain_score(w, now, node, slot)
        table[slot, 0] &= ~CONNECTED
        mark_all_outdated(w, node)
    if has_overlay(w, node):
        overlay_disconnected(w, th, now, node, slot)
    if has_trees(w, node):
        peer_removed(w, th, now, node, slot)
    for topic in range(w[TOPICS]):
        if has_mesh(w, node):
            remove_if_member(w, th, now, node, slot, topic)
        table[slot, topic] = 0
        note_subscription(w, slot, topic, False)
        lists.remove(w, node, NEWS, topic, peer)
    if w[USES_12]:
        forget_unwanted(w, node, -1, peer)
    if w[HAS_FEATURES]:
        clear_traits(w, slot)
    if w[PART_WORDS]:
        forget_groups_of_peer(w, node, peer)
    row(w, th, remove_peer_row(now, node, peer))


@kernel
def on_subscription(w: World, th: int, now: int, node: int, slot: int, topic: int, subscribe: bool) -> int:
    """Handle a SUBSCRIBE or UNSUBSCRIBE; return the reason for which it is refused, or ACCEPTED."""
    table = flags(w)
    note_subscription(w, slot, topic, subscribe)
    if not subscribe:
        if table[slot, topic] & SUBSCRIBED:
            if has_mesh(w, node):
                peer_unsubscribed(w, th, now, node, slot, topic)
            if has_overlay(w, node):
                overlay_unsubscribed(w, th, now, node, peers(w)[slot], topic)
            elif has_trees(w, node):
                neighbour_down(w, th, now, node, slot, topic, False)
            if parameter(w, node, ROUTER_KIND) == GOSSIPSUB:
                lists.remove(w, node, NEWS, topic, peers(w)[slot])
            table[slot, topic] &= ~(SUBSCRIBED | IN_FANOUT)
        return ACCEPTED
    if table[slot, topic] & SUBSCRIBED:
        return ACCEPTED
    refusal = _refusal(w, node, slot, topic)
    if refusal != ACCEPTED:
        return refusal
    table[slot, topic] |= SUBSCRIBED
    if parameter(w, node, GRAFT_ON_SUBSCRIBE) and is_native(w, slot):
        graft_subscriber(w, th, now, node, slot, topic)
    if has_overlay(w, node):
        overlay_subscribed(w, th, now, node, peers(w)[slot], topic)
    elif has_trees(w, node) and is_native(w, slot):
        neighbour_up(w, th, now, node, slot, topic)
    return ACCEPTED


@kernel
def _refusal(w: World, node: int, slot: int, topic: int) -> int:
    """Return the reason to refuse a new subscription, OVER_LIMIT or THROTTLED; otherwise ACCEPTED (SHELL-6).

    OVER_LIMIT: the peer has too many subscriptions, or they take too much memory. THROTTLED: those of all peers take
    too much memory, and the router has not joined the topic.
    """
    most = parameter(w, node, MAX_SUBSCRIPTIONS)
    most_bytes = parameter(w, node, MAX_BYTES_OF_PEER)
    if most < w[TOPICS] or most_bytes:
        count = 0
        size = topics(w)[topic, SUBSCRIPTION]
        for other in range(w[TOPICS]):
            if flags(w)[slot, other] & SUBSCRIBED:
                count += 1
                size += topics(w)[other, SUBSCRIPTION]
        if count >= most or 0 < most_bytes < size:
            return OVER_LIMIT
    most_bytes = parameter(w, node, MAX_SUBSCRIPTION_BYTES)
    if most_bytes and not is_in(w, node, topic) and _memory_of_all(w, node) >= most_bytes:
        return THROTTLED
    return ACCEPTED


@kernel
def _memory_of_all(w: World, node: int) -> int:
    """Return the number of bytes that the subscriptions of all peers take in memory."""
    size = 0
    for topic in range(w[TOPICS]):
        own = 0
        for slot in range(first_slot(w, node), end_slot(w, node)):
            if flags(w)[slot, topic] & SUBSCRIBED:
                own += topics(w)[topic, SUBSCRIPTION]
        size += own + (TOPIC_VIEW_BYTES if own else 0)
    return size


@kernel
def join(w: World, th: int, now: int, node: int, topic: int) -> None:
    members(w)[node, topic] |= JOINED
    if w[TRACKS_SINCE]:
        since_us(w)[node, topic] = now
    row(w, th, join_row(now, node, topic))
    _announce(w, th, node, topic, True)
    start_scoring_topic(w, node, topic)
    if has_mesh(w, node):
        join_mesh(w, th, now, node, topic, nodes32(w)[node, TICK])
        if members(w)[node, topic] & FANOUT:
            forget_fanout(w, node, topic)
    elif has_trees(w, node):
        join_tree(w, th, now, node, topic)
        if has_overlay(w, node):
            start_overlay(w, th, now, node, topic)


@kernel
def leave(w: World, th: int, now: int, node: int, topic: int) -> None:
    members(w)[node, topic] &= ~JOINED
    if w[TRACKS_SINCE]:
        since_us(w)[node, topic] = NO_MEMBER
    _announce(w, th, node, topic, False)
    if has_mesh(w, node):
        leave_mesh(w, th, now, node, topic)
    elif has_trees(w, node):
        leave_tree(w, th, now, node, topic)
        if has_overlay(w, node):
            stop_overlay(w, th, now, node, topic)
    if parameter(w, node, ROUTER_KIND) == GOSSIPSUB:
        lists.remove(w, node, NEWS, topic, -1)
    if w[PART_WORDS]:
        leave_groups(w, node, topic)
    row(w, th, leave_row(now, node, topic))


@kernel
def _announce(w: World, th: int, node: int, topic: int, subscribe: bool) -> None:
    if parameter(w, node, HELLO):
        for slot in range(first_slot(w, node), end_slot(w, node)):
            if flags(w)[slot, 0] & CONNECTED:
                send_subscription(w, th, node, slot, topic, subscribe)
