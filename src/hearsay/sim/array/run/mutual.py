"""The check of all nodes at the end of a run: mesh links are mutual unless a GRAFT or PRUNE is under way.

It is that of `sim.checks.checker.Checker.finished`, but leaves out nodes with scores, since a graylist may have
dropped the last GRAFT or PRUNE, and direct peers, whose GRAFT may get no answer.

Layout: `slot_marks` has a byte for a slot over which something is under way.
"""

from __future__ import annotations

from hearsay.core.language.events import EventKind
from hearsay.sim.array.machine.compiling import kernel
from hearsay.sim.array.rules.direct import is_direct
from hearsay.sim.array.rules.mesh import has_mesh
from hearsay.sim.array.rules.scores import has_scores
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.layout import (
    BACKLOG,
    BUCKETS,
    CONNECTED,
    CUT,
    DEAD,
    FAR,
    FINDINGS,
    HAS_LINKS,
    IN_MESH,
    LINK_FLAGS,
    NODES,
    OPEN,
    SERVICE,
    THREADS,
    TOPICS,
    TWIN,
    UNSENT,
    UP,
    World,
    arena,
    chunk_next,
    control,
    far,
    fills,
    findings,
    flags,
    heads,
    links32,
    links_of,
    nodes32,
    peers,
    pool,
    queued,
    slot_marks,
    words_at,
)
from hearsay.sim.array.world.payload import GRAFT, PART_KIND, PRUNE, part_place
from hearsay.sim.array.world.queue import (
    CHUNK,
    DIVISIONS,
    EVENT_KIND,
    GOSSIP,
    INLINE,
    NODE,
    PAYLOAD,
    TOPIC_PART,
    source_of,
    topic_kind,
)
from hearsay.sim.array.world.slots import end_slot, find_slot, first_slot


@kernel
def find_one_sided_links(w: World) -> None:
    _mark_what_is_under_way(w)
    for node in range(w[NODES]):
        if not nodes32(w)[node, UP] or not has_mesh(w, node) or has_scores(w, node):
            continue
        for slot in range(first_slot(w, node), end_slot(w, node)):
            back = _settled(w, node, slot)
            if back < 0:
                continue
            for topic in range(w[TOPICS]):
                pair = flags(w)[slot, topic] | flags(w)[back, topic]
                if flags(w)[slot, topic] & IN_MESH and not flags(w)[back, topic] & IN_MESH and not pair & UNSENT:
                    _note(w, node, peers(w)[slot], topic)


@kernel
def _note(w: World, node: int, peer: int, topic: int) -> None:
    place = w[FINDINGS]
    w[FINDINGS] = place + 1
    if place < findings(w).shape[0]:
        findings(w)[place, 0] = node
        findings(w)[place, 1] = peer
        findings(w)[place, 2] = topic


@kernel
def _settled(w: World, node: int, slot: int) -> int:
    """Return the other end's slot of a connection with nothing under way; -1 for others, and for those left out."""
    peer = peers(w)[slot]
    if not flags(w)[slot, 0] & CONNECTED or slot_marks(w)[slot] or not nodes32(w)[peer, UP]:
        return -1
    back = find_slot(w, peer, node)
    if back < 0 or not flags(w)[back, 0] & CONNECTED or slot_marks(w)[back]:
        return -1
    if not has_mesh(w, peer) or has_scores(w, peer) or is_direct(w, peer, back) or is_direct(w, node, slot):
        return -1
    if w[HAS_LINKS]:
        line = links32(w)[links_of(w)[slot]]
        twin = links32(w)[line[TWIN]]
        if not line[LINK_FLAGS] & OPEN or line[LINK_FLAGS] & (CUT | DEAD) or not twin[LINK_FLAGS] & OPEN:
            return -1
    return back


@kernel
def _mark_what_is_under_way(w: World) -> None:
    for th in range(w[THREADS]):
        for ring in range(w[BUCKETS] + DIVISIONS):
            chunk = heads(w)[th, ring]
            while chunk >= 0:
                last = chunk_next(w)[chunk] < 0
                for place in range(chunk * CHUNK, chunk * CHUNK + (fills(w)[th, ring] if last else CHUNK)):
                    _mark(w, queued(w)[place, 1] >> NODE, queued(w)[place, 0], queued(w)[place, 1] & PAYLOAD)
                chunk = chunk_next(w)[chunk]
        for place in range(control(w)[th, FAR]):
            line = far(w)[th, place]
            _mark(w, line[2] >> NODE, line[1], line[2] & PAYLOAD)
    if w[SERVICE]:
        for node in range(w[NODES]):
            entries = pool(w)[lists.owner(w, node)]
            place = nodes32(w)[node, BACKLOG]
            while place >= 0:
                _mark(w, node, entries[place, lists.FIRST], entries[place, lists.SECOND] & PAYLOAD)
                place = entries[place, lists.NEXT]


@kernel
def _mark(w: World, node: int, w0: int, payload: int) -> None:
    """Mark the slot to the sender of a GRAFT or PRUNE, or to the peer that did not get one."""
    kind = (w0 >> EVENT_KIND) & 15
    if kind != EventKind.RPC_RECEIVED and kind != EventKind.SEND_FAILED:
        return
    if payload & (INLINE | GOSSIP):
        return
    about = False
    if payload & TOPIC_PART:
        about = _is_about_mesh(topic_kind(payload))
    else:
        for index in range(arena(w)[payload]):
            about |= _is_about_mesh(words_at(w, part_place(payload, index))[PART_KIND])
    slot = find_slot(w, node, source_of(w0)) if about else -1
    if slot >= 0:
        slot_marks(w)[slot] = 1


@kernel
def _is_about_mesh(kind: int) -> bool:
    return kind == GRAFT or kind == PRUNE
