"""The check of all nodes at the end of a run: it checks the numbers of sent parts, and mesh links.

All parts that were sent must have been received or lost, or be in flight. Mesh links must be mutual unless a GRAFT or
PRUNE is in flight or may be lost, as in `sim.checks.checker.Checker.finished`. The mesh links of nodes with scores
are not checked, because a graylist may have dropped the last GRAFT or PRUNE. Neither are mesh links to direct peers,
because the GRAFT of a direct peer may get no answer.

Layout: `slot_marks` has 1 for a slot if a GRAFT or PRUNE from the slot's peer is in flight, or if a GRAFT or PRUNE to
this peer was refused by the uplink.
"""

from __future__ import annotations

from hearsay.core.language.events import EventKind
from hearsay.core.language.rpc import PartKind
from hearsay.sim.array.rules.checks import ONE_SIDED, UNCOUNTED
from hearsay.sim.array.rules.mesh import has_mesh
from hearsay.sim.array.rules.scores import has_scores
from hearsay.sim.array.rules.special_peers import is_direct
from hearsay.sim.array.travel.transport import ROOM
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.layout import (
    BACKLOG,
    BUCKETS,
    CONNECTED,
    CUT,
    DEAD,
    FAR,
    HAS_LINKS,
    HAS_LOSS,
    IN_MESH,
    LEAVING_FIRST,
    LEAVING_NEXT,
    LINK_FLAGS,
    LOSS_CONTROL,
    NEAR,
    NODES,
    OPEN,
    SCRIPT,
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
    counts,
    far,
    fills,
    flags,
    heads,
    leaving,
    links32,
    links_of,
    near,
    nodes32,
    peers,
    pool,
    queued,
    slot_marks,
    tallies,
    words_at,
)
from hearsay.sim.array.world.payload import CONNECT, GRAFT, IHAVE, PART_KIND, PRUNE, PUBLISH, part_place
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
from hearsay.sim.array.world.record import LOST, RECEIVED, SENT, UNDER_WAY, found, with_checks
from hearsay.sim.array.world.slots import end_slot, find_slot, first_slot

_KINDS = len(PartKind)
AT_THE_END = -1
"""The time of a finding at the end of the run."""


@with_checks
def check_the_end(w: World) -> None:
    for th in range(w[THREADS]):
        for kind in range(_KINDS):
            tallies(w)[th, UNDER_WAY + kind] = 0
    _count_waiting_events(w)
    for kind in range(_KINDS):
        missing = 0
        for th in range(w[THREADS]):
            line = tallies(w)[th]
            missing += counts(w)[th, SENT + kind] - line[RECEIVED + kind] - line[LOST + kind] - line[UNDER_WAY + kind]
        if missing and kind != CONNECT:
            found(w, 0, AT_THE_END, UNCOUNTED, -1, -1, kind, missing)
    if not (w[HAS_LOSS] and w[LOSS_CONTROL]):
        _find_one_sided_links(w)


@with_checks
def count_parts_of(w: World, th: int, first: int, w0: int, payload: int) -> None:
    """If an event is an RPC or a message of the script, count its parts. `first` is the first counter in `tallies`:
    LOST or UNDER_WAY."""
    kind = (w0 >> EVENT_KIND) & 15
    line = tallies(w)[th]
    if kind == EventKind.PUBLISH:
        line[first + PUBLISH] += int(source_of(w0) == w[SCRIPT])
    elif kind != EventKind.RPC_RECEIVED:
        return
    elif payload & INLINE:
        line[first + PUBLISH] += 1
    elif payload & GOSSIP:
        line[first + IHAVE] += 1
    elif payload & TOPIC_PART:
        line[first + topic_kind(payload)] += 1
    else:
        for index in range(arena(w)[payload]):
            line[first + words_at(w, part_place(payload, index))[PART_KIND]] += 1


@with_checks
def _find_one_sided_links(w: World) -> None:
    for node in range(w[NODES]):
        if not nodes32(w)[node, UP] or not has_mesh(w, node) or has_scores(w, node):
            continue
        for slot in range(first_slot(w, node), end_slot(w, node)):
            back = _slot_back(w, node, slot)
            if back < 0:
                continue
            for topic in range(w[TOPICS]):
                pair = flags(w)[slot, topic] | flags(w)[back, topic]
                if flags(w)[slot, topic] & IN_MESH and not flags(w)[back, topic] & IN_MESH and not pair & UNSENT:
                    found(w, 0, AT_THE_END, ONE_SIDED, node, peers(w)[slot], topic, -1)


@with_checks
def _slot_back(w: World, node: int, slot: int) -> int:
    """Return the slot that the peer of a slot has for the node; -1 if mesh links between the two are not checked."""
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


@with_checks
def _count_waiting_events(w: World) -> None:
    for th in range(w[THREADS]):
        for place in range(control(w)[th, LEAVING_FIRST], control(w)[th, LEAVING_NEXT]):
            entry = leaving(w)[th, place & (ROOM - 1)]
            _count_event(w, entry[2], entry[1])
        for place in range(control(w)[th, NEAR]):
            _count_event(w, near(w)[th, place, 1], near(w)[th, place, 0])
        for ring in range(w[BUCKETS] + DIVISIONS):
            chunk = heads(w)[th, ring]
            while chunk >= 0:
                last = chunk_next(w)[chunk] < 0
                for place in range(chunk * CHUNK, chunk * CHUNK + (fills(w)[th, ring] if last else CHUNK)):
                    _count_event(w, queued(w)[place, 1], queued(w)[place, 0])
                chunk = chunk_next(w)[chunk]
        for place in range(control(w)[th, FAR]):
            _count_event(w, far(w)[th, place, 2], far(w)[th, place, 1])
    if w[SERVICE]:
        for node in range(w[NODES]):
            entries = pool(w)[lists.owner(w, node)]
            place = nodes32(w)[node, BACKLOG]
            while place >= 0:
                _count_event(w, entries[place, lists.SECOND], entries[place, lists.FIRST])
                place = entries[place, lists.NEXT]


@with_checks
def _count_event(w: World, w1: int, w0: int) -> None:
    """Count the parts of a queued event with the words `w0` and `w1`, if it is an RPC or a message of the script.

    If an RPC has a GRAFT or PRUNE, mark the node's slot for the sender. If the event is the refusal of such an RPC,
    mark the slot for the peer to which it could not be sent.
    """
    node = w1 >> NODE
    payload = w1 & PAYLOAD
    count_parts_of(w, 0, UNDER_WAY, w0, payload)
    kind = (w0 >> EVENT_KIND) & 15
    if kind != EventKind.RPC_RECEIVED and kind != EventKind.SEND_FAILED:
        return
    if payload & (INLINE | GOSSIP):
        return
    about = payload & TOPIC_PART != 0 and topic_kind(payload) in (GRAFT, PRUNE)
    if not payload & TOPIC_PART:
        for index in range(arena(w)[payload]):
            about |= words_at(w, part_place(payload, index))[PART_KIND] in (GRAFT, PRUNE)
    slot = find_slot(w, node, source_of(w0)) if about else -1
    if slot >= 0:
        slot_marks(w)[slot] = 1
