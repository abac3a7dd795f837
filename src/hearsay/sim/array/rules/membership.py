"""Who is connected and subscribed: hello, joins and leaves, connects and disconnects (`core.shell`)."""

from __future__ import annotations

from hearsay.core.language.actions import Reason
from hearsay.core.language.rpc import PartKind
from hearsay.sim.array.machine.compiling import kernel, shared
from hearsay.sim.array.rules.gossip import forget_fanout
from hearsay.sim.array.rules.mesh import drop, end_slot, first_slot, has_mesh, join_mesh, leave_mesh, leave_peer
from hearsay.sim.array.travel.outbox import put_subscription
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.layout import (
    APPLICATION,
    CONNECTED,
    FANOUT,
    FLOODED,
    GOSSIPSUB,
    HELLO,
    IN_FANOUT,
    JOINED,
    MAX_SUBSCRIPTIONS,
    NATIVE,
    NEWS,
    ROUTER_KIND,
    SUBSCRIBED,
    TICK,
    TOPICS,
    TRACKS_SINCE,
    World,
    flags,
    members,
    natives,
    nodes32,
    peers,
    since_us,
)
from hearsay.sim.array.world.neighbours import parameter, router
from hearsay.sim.array.world.record import row
from hearsay.trace.language import event_rows

add_peer_row = shared(event_rows.add_peer_row)
join_row = shared(event_rows.join_row)
leave_row = shared(event_rows.leave_row)
remove_peer_row = shared(event_rows.remove_peer_row)
_SUBSCRIBE = int(PartKind.SUBSCRIBE)
_OVER_LIMIT = int(Reason.OVER_LIMIT)
NOBODY = -1
"""In `since_us`: not a member now."""


@kernel
def connect(w: World, th: int, now: int, node: int, slot: int) -> None:
    """The router learns of a peer (SHELL-1)."""
    peer = peers(w)[slot]
    native = natives(w)[router(w, node), router(w, peer)] != FLOODED
    table = flags(w)
    row(w, th, add_peer_row(now, node, peer))
    hello = parameter(w, node, HELLO)
    for topic in range(w[TOPICS]):
        table[slot, topic] = 0
        if hello:
            if members(w)[node, topic] & JOINED:
                put_subscription(w, th, slot, topic, True)
        elif members(w)[peer, topic] & APPLICATION:
            table[slot, topic] = SUBSCRIBED
    table[slot, 0] |= CONNECTED | (NATIVE if native else 0)


@kernel
def disconnect(w: World, th: int, now: int, node: int, slot: int) -> None:
    """The router loses a peer; the slot stays."""
    table = flags(w)
    peer = peers(w)[slot]
    for topic in range(w[TOPICS]):
        if has_mesh(w, node):
            leave_peer(w, th, now, node, slot, topic)
        table[slot, topic] = 0
        lists.remove(w, node, NEWS, topic, peer)
    row(w, th, remove_peer_row(now, node, peer))


@kernel
def on_subscription(w: World, th: int, now: int, node: int, slot: int, topic: int, subscribe: bool) -> bool:
    """A peer's SUBSCRIBE or UNSUBSCRIBE; False when it is one too many (SHELL-6)."""
    table = flags(w)
    if not subscribe:
        if table[slot, topic] & SUBSCRIBED:
            if has_mesh(w, node):
                leave_peer(w, th, now, node, slot, topic)
            if parameter(w, node, ROUTER_KIND) == GOSSIPSUB:
                lists.remove(w, node, NEWS, topic, peers(w)[slot])
            table[slot, topic] &= ~(SUBSCRIBED | IN_FANOUT)
        return True
    if table[slot, topic] & SUBSCRIBED:
        return True
    most = parameter(w, node, MAX_SUBSCRIPTIONS)
    if most < w[TOPICS]:
        count = 0
        for other in range(w[TOPICS]):
            if table[slot, other] & SUBSCRIBED:
                count += 1
        if count >= most:
            return False
    table[slot, topic] |= SUBSCRIBED
    return True


@kernel
def subscriptions_over_limit(w: World, th: int, now: int, node: int, slot: int, count: int) -> None:
    drop(w, th, now, node, peers(w)[slot], _SUBSCRIBE, count, _OVER_LIMIT)


@kernel
def join(w: World, th: int, now: int, node: int, topic: int) -> None:
    """The router joins a topic."""
    members(w)[node, topic] |= JOINED
    if w[TRACKS_SINCE]:
        since_us(w)[node, topic] = now
    row(w, th, join_row(now, node, topic))
    _announce(w, th, node, topic, True)
    if has_mesh(w, node):
        join_mesh(w, th, now, node, topic, nodes32(w)[node, TICK])
        if members(w)[node, topic] & FANOUT:
            forget_fanout(w, node, topic)


@kernel
def leave(w: World, th: int, now: int, node: int, topic: int) -> None:
    members(w)[node, topic] &= ~JOINED
    if w[TRACKS_SINCE]:
        since_us(w)[node, topic] = NOBODY
    _announce(w, th, node, topic, False)
    if has_mesh(w, node):
        leave_mesh(w, th, now, node, topic)
    if parameter(w, node, ROUTER_KIND) == GOSSIPSUB:
        lists.remove(w, node, NEWS, topic, -1)
    row(w, th, leave_row(now, node, topic))


@kernel
def _announce(w: World, th: int, node: int, topic: int, subscribe: bool) -> None:
    if parameter(w, node, HELLO):
        for slot in range(first_slot(w, node), end_slot(w, node)):
            if flags(w)[slot, 0] & CONNECTED:
                put_subscription(w, th, slot, topic, subscribe)
