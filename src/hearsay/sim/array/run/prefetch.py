"""Memory that is asked for ahead: nodes lie far apart, and waiting for each would be most of the time."""

from __future__ import annotations

from hearsay.core.language.events import EventKind
from hearsay.core.rules import mesh_rules
from hearsay.sim.array.machine.compiling import inlined, kernel, shared
from hearsay.sim.array.rules.mesh import mesh_size
from hearsay.sim.array.world.knowledge import column, is_marked, word_of
from hearsay.sim.array.world.layout import (
    COUNT,
    DEGREE_LOW,
    FIRST_MESSAGE,
    FIRST_SLOT,
    GOSSIPS_FROM,
    HAS_LINKS,
    LINK32,
    NEWEST,
    NODE32,
    PRUNE_FROM,
    TOPICS,
    TWIN,
    World,
    arena,
    block_starts,
    cells,
    links32,
    nodes32,
    sorted_events,
    sorted_links,
    touch_arena,
    touch_bytes_out,
    touch_cached,
    touch_cells,
    touch_flags,
    touch_links32,
    touch_links_of,
    touch_members,
    touch_nodes32,
    touch_peers,
    touch_seen,
    words_at,
)
from hearsay.sim.array.world.near import (
    EVENT_KIND,
    GOSSIP,
    INLINE,
    MESSAGE,
    NODE,
    PAYLOAD,
    TOPIC_PART,
    source_of,
)
from hearsay.sim.array.world.neighbours import parameter
from hearsay.sim.array.world.payload import IHAVE, PART_IDS, PART_KIND, part_place

_MOST_CELLS = 128
_TIMER = int(EventKind.TIMER_FIRED)
_CONNECTED = int(EventKind.PEER_CONNECTED)
_RPC = int(EventKind.RPC_RECEIVED)
is_too_small = shared(mesh_rules.is_too_small)
is_too_large = shared(mesh_rules.is_too_large)


@kernel
def ask_what_is_known(w: World, block: int) -> None:
    """Ask for memory of a block that is handled soon: nodes lie far apart, and waiting would be most of the time.

    First what a node knows of a message, which for most RPCs is all that is needed.
    """
    events = sorted_events(w)[0]
    for place in range(block_starts(w)[0, block], block_starts(w)[0, block + 1]):
        w0 = events[place, 0]
        w1 = events[place, 1]
        kind = (w0 >> EVENT_KIND) & 15
        if w[HAS_LINKS]:
            touch_links32(w, sorted_links(w)[0, place] * LINK32)
        if w1 & (INLINE | GOSSIP):
            touch_seen(w, word_of(w, w1 >> NODE, column(w, w1 & MESSAGE)))
        elif kind == _TIMER:
            touch_members(w, (w1 >> NODE) * w[TOPICS])
        elif kind == _RPC and not w1 & TOPIC_PART:
            touch_arena(w, w1 & PAYLOAD)
            touch_arena(w, (w1 & PAYLOAD) + 8)
        elif kind == _CONNECTED:
            touch_members(w, source_of(w0) * w[TOPICS])


@kernel
def ask_for_nodes(w: World, block: int) -> None:
    """Then headers, and the cells of messages that are new."""
    events = sorted_events(w)[0]
    for place in range(block_starts(w)[0, block], block_starts(w)[0, block + 1]):
        w1 = events[place, 1]
        if w1 & GOSSIP:
            continue
        node = w1 >> NODE
        if w[HAS_LINKS]:
            link = sorted_links(w)[0, place]
            touch_links32(w, links32(w)[link, TWIN] * LINK32)
            if (events[place, 0] >> EVENT_KIND) & 15 == _RPC and not w1 & (INLINE | TOPIC_PART):
                rpc = w1 & PAYLOAD
                part = words_at(w, part_place(rpc, 0))
                if part[PART_KIND] == IHAVE:
                    at = column(w, arena(w)[rpc + part[PART_IDS]])
                    touch_seen(w, word_of(w, node, at))
        if w1 & INLINE:
            at = column(w, w1 & MESSAGE)
            if is_marked(w, node, at) and not w[HAS_LINKS]:
                continue
            touch_cells(w, node * cells(w).shape[1] + at)
            touch_cached(w, word_of(w, node, at))
            touch_members(w, node * w[TOPICS])
        touch_nodes32(w, node * NODE32)
        touch_bytes_out(w, node)


@kernel
def ask_for_neighbours(w: World, block: int) -> None:
    """Then what a node's header leads to."""
    events = sorted_events(w)[0]
    for place in range(block_starts(w)[0, block], block_starts(w)[0, block + 1]):
        w1 = events[place, 1]
        node = w1 >> NODE
        if w1 & GOSSIP or (w1 & INLINE and is_marked(w, node, column(w, w1 & MESSAGE))):
            continue
        if (events[place, 0] >> EVENT_KIND) & 15 == _TIMER:
            message = max(nodes32(w)[node, GOSSIPS_FROM], w[FIRST_MESSAGE])
            if message >= w[NEWEST] and not _is_off_size(w, node, 0):
                continue
            touch_cached(w, word_of(w, node, column(w, message)))
            for near_message in range(message & ~7, min(w[NEWEST], message + _MOST_CELLS), 8):
                touch_cells(w, node * cells(w).shape[1] + column(w, near_message))
        slot = nodes32(w)[node, FIRST_SLOT]
        last = slot + nodes32(w)[node, COUNT] - 1
        touch_flags(w, slot * w[TOPICS])
        touch_flags(w, (last + 1) * w[TOPICS] - 1)
        if w[HAS_LINKS]:
            touch_links_of(w, slot)
            touch_links_of(w, slot + 16)
        touch_peers(w, slot)
        touch_peers(w, slot + 16)
        touch_peers(w, last)


@inlined
def _is_off_size(w: World, node: int, topic: int) -> bool:
    """Whether the heartbeat will have to graft or to prune."""
    size = mesh_size(w, node, topic)
    return is_too_small(size, parameter(w, node, DEGREE_LOW)) | is_too_large(size, parameter(w, node, PRUNE_FROM))
