"""Meshes: kernels of `core.mesh.mesh`, `core.mesh.mesh_requests` and `core.mesh.graft_bounds`.

Layout: the members of a topic's mesh are the node's slots that have IN_MESH for the topic. So loops over slots visit
members in ascending order. Backoffs are a list of the node (`lists.py`). An entry has the topic, the peer and the end
of the backoff. If a router limits the members at an address, members beyond the limit have "lent" places
(`special_peers.py`).
"""

from __future__ import annotations

from hearsay.core.mesh.mesh import LEAVING, REFUSING
from hearsay.core.rules.mesh_rules import (
    ACCEPTED,
    BACKOFF_PRUNE,
    BARE_PRUNE,
    EXCHANGE_PRUNE,
    FROM_DIRECT,
    IN_BACKOFF,
    MEMBER,
    MESH_IS_FULL,
    NO_PRUNE,
    NOT_A_SUBSCRIBER,
    UNWELCOME,
    graft_answer,
    has_room_for_one,
    is_early,
    is_early_of_us,
    is_flood,
    is_full,
    later_end,
    received_backoff,
    seconds_to_name,
    time_left,
)
from hearsay.core.rules.randomness import Purpose
from hearsay.core.rules.score_parts import enters_a_full_mesh, gets_published, may_be_in_mesh
from hearsay.sim.array.compiling import inlined, kernel
from hearsay.sim.array.rules.checks import ACCEPTED_EARLY, check_backoff, note_prune, note_subscription
from hearsay.sim.array.rules.exchange import WITHOUT_NAMES, choose_names, dial_named, offer_name, trusts_exchange
from hearsay.sim.array.rules.scores import count_graft, count_prune, has_scores, penalise, real, score
from hearsay.sim.array.rules.special_peers import (
    GRAFT_IS_IGNORED,
    GRAFT_IS_PENALISED,
    choose,
    divide_members,
    has_place,
    is_direct,
    places,
    with_places,
)
from hearsay.sim.array.travel.outbox import clear_prune_peers, put_graft, put_prune
from hearsay.sim.array.travel.parts import backoff_seconds, prune_extras
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.draws import draw_topic, pick
from hearsay.sim.array.world.layout import (
    BACKOFF,
    BACKOFF_LASTS,
    BACKOFF_NOT_JOINED,
    BACKOFF_ON_UNSUBSCRIBE,
    BACKOFF_SLACK,
    BACKOFFS,
    DEGREE,
    DEGREE_OUT,
    DIALLED,
    DIRECT_GRAFT,
    EARLY_GRAFT,
    EARLY_PENALTY,
    EXCHANGE,
    EXCHANGE_ALWAYS,
    GRAFT_FLOOD,
    HAS_11,
    HAS_DIALS,
    HIDES_PEERS,
    IN_FANOUT,
    IN_MESH,
    MAX_BACKOFF,
    MAX_BACKOFFS,
    MEMBER_IS_JUDGED,
    MESH_BITS,
    MESH_SIZE,
    MESHSUB,
    NAMES,
    PRUNE_FROM,
    PUBLISH_FROM,
    REFUSE_FROM,
    ROUTER_KIND,
    SUBSCRIBED,
    TAKES_BACKOFFS,
    TAKES_UNWELCOME,
    UNKNOWN_GRAFT_PRUNES,
    UNSUBSCRIBE_BACKOFF,
    UNSUBSCRIBED,
    UNSUBSCRIBED_GRAFT,
    WELCOMES,
    WHEN_FULL,
    WITNESSES,
    World,
    arena,
    candidates,
    control,
    flags,
    members,
    mesh_times,
    peers,
    witnesses,
)
from hearsay.sim.array.world.payload import GRAFT, others_named
from hearsay.sim.array.world.record import FORGETS, ignored, row
from hearsay.sim.array.world.slots import (
    end_slot,
    first_slot,
    is_in,
    is_native,
    own_place,
    parameter,
    treatment,
)
from hearsay.trace.language.event_rows import graft_row, prune_row

STRANGER_IS_PRUNED, STRANGER_IS_IGNORED, STRANGER_IS_ACCEPTED = range(3)
"""Values of UNSUBSCRIBED_GRAFT: the answer to a GRAFT of a peer that is not subscribed to the topic."""


@kernel
def has_mesh(w: World, node: int) -> bool:
    return parameter(w, node, ROUTER_KIND) >= MESHSUB


@inlined
def mesh_size(w: World, node: int, topic: int) -> int:
    return members(w)[node, topic] >> MESH_SIZE


@kernel
def _add_member(w: World, th: int, now: int, node: int, slot: int, topic: int) -> None:
    flags(w)[slot, topic] |= IN_MESH
    members(w)[node, topic] += 1 << MESH_SIZE
    row(w, th, graft_row(now, node, peers(w)[slot], topic))
    check_backoff(w, th, now, node, slot, topic, ACCEPTED_EARLY)
    count_graft(w, now, node, slot, topic)


@kernel
def _remove_member(w: World, th: int, now: int, node: int, slot: int, topic: int) -> None:
    flags(w)[slot, topic] &= ~IN_MESH
    members(w)[node, topic] -= 1 << MESH_SIZE
    row(w, th, prune_row(now, node, peers(w)[slot], topic))
    count_prune(w, now, node, slot, topic, True)


@kernel
def join_mesh(w: World, th: int, now: int, node: int, topic: int, tick: int) -> None:
    """GRAFT up to D peers when a topic is joined: peers of its fan-out, then random peers (MESH-1, FANOUT-3)."""
    table = flags(w)
    size = 0
    for slot in range(first_slot(w, node), end_slot(w, node)):
        if table[slot, topic] & IN_FANOUT:
            table[slot, topic] &= ~IN_FANOUT
            if may_graft(w, th, now, node, slot, topic):
                graft(w, th, now, node, slot, topic)
                size += 1
    missing = parameter(w, node, DEGREE) - size
    graft_random(w, th, now, node, topic, missing, missing, Purpose.JOIN, tick)


@kernel
def leave_mesh(w: World, th: int, now: int, node: int, topic: int) -> None:
    """PRUNE all members when a topic is left (MESH-1, BACKOFF-5)."""
    table = flags(w)
    for slot in range(first_slot(w, node), end_slot(w, node)):
        if table[slot, topic] & IN_MESH:
            _remove_member(w, th, now, node, slot, topic)
            _send_backoff(w, th, now, node, slot, topic, parameter(w, node, UNSUBSCRIBE_BACKOFF), LEAVING)


@kernel
def on_graft(w: World, th: int, now: int, node: int, slot: int, topic: int) -> None:
    """Handle a GRAFT.

    Rules: MESH-3, GRAFT-1, GRAFT-2, GRAFT-3, GRAFT-4, GRAFT-5, GRAFT-6, GRAFT-7, GRAFT-8, BACKOFF-8.
    """
    peer = peers(w)[slot]
    flag = flags(w)[slot, topic]
    member = flag & IN_MESH != 0
    strangers = parameter(w, node, UNSUBSCRIBED_GRAFT)
    judged = parameter(w, node, MEMBER_IS_JUDGED) != 0
    welcome = _permissions(w, th, now, node, slot)
    reason, prune = graft_answer(
        has_mesh(w, node) and is_native(w, slot),
        is_in(w, node, topic),
        parameter(w, node, UNKNOWN_GRAFT_PRUNES) != 0,
        flag & SUBSCRIBED != 0 or strangers != STRANGER_IS_PRUNED,
        member and not judged,
        is_direct(w, node, slot),
        is_early(now + parameter(w, node, EARLY_GRAFT), _backoff_end(w, node, topic, peer)),
        welcome & _ENTERS == 0,
        is_full(mesh_size(w, node, topic), parameter(w, node, REFUSE_FROM)) and not _is_exempt(w, node, slot, topic),
    )
    if member and reason == ACCEPTED:
        reason = MEMBER
    elif reason in (ACCEPTED, MESH_IS_FULL) and strangers == STRANGER_IS_IGNORED and not flag & SUBSCRIBED:
        reason = NOT_A_SUBSCRIBER
    if reason == MESH_IS_FULL and not member and places(w, node) and _prune_lent(w, th, now, node, slot, topic):
        reason = ACCEPTED
    if reason == ACCEPTED:
        flags(w)[slot, topic] |= SUBSCRIBED
        if strangers == STRANGER_IS_ACCEPTED:
            note_subscription(w, slot, topic, True)
        _add_member(w, th, now, node, slot, topic)
        return
    if reason == IN_BACKOFF:
        _penalise_early(w, now, node, slot, topic)
    elif reason == FROM_DIRECT and parameter(w, node, DIRECT_GRAFT) == GRAFT_IS_PENALISED:
        penalise(w, node, slot, real(w, node, EARLY_PENALTY))
    if reason == FROM_DIRECT and parameter(w, node, DIRECT_GRAFT) == GRAFT_IS_IGNORED:
        prune = NO_PRUNE
    if reason == NOT_A_SUBSCRIBER and strangers == STRANGER_IS_IGNORED:
        prune = NO_PRUNE
    if reason == UNWELCOME and parameter(w, node, TAKES_UNWELCOME):
        prune = NO_PRUNE
    if prune != NO_PRUNE and member:
        remove_if_member(w, th, now, node, slot, topic)
    prune = _kind_of_prune(w, th, node, slot, reason, prune, welcome)
    if prune == BARE_PRUNE:
        put_prune(w, th, slot, topic, 0)
    elif prune != NO_PRUNE:
        occasion = REFUSING if prune == EXCHANGE_PRUNE else WITHOUT_NAMES
        _send_backoff(w, th, now, node, slot, topic, parameter(w, node, BACKOFF), occasion)
    if reason != MEMBER:
        ignored(w, th, now, node, peer, GRAFT, 1, reason)


@with_places
def _prune_lent(w: World, th: int, now: int, node: int, slot: int, topic: int) -> bool:
    """PRUNE a member with a lent place if a peer would have a place of its own (PLACES-2).

    Return whether a member was pruned, so that there is room for the peer.
    """
    if not has_place(w, node, slot, topic):
        return False
    state = draw_topic(w, Purpose.MAKE_WAY, node, topic, peers(w)[slot])
    own = divide_members(w, th, node, topic, state)
    if own == mesh_size(w, node, topic):
        return False
    prune(w, th, now, node, candidates(w)[th, own], topic, REFUSING)
    return True


_READ, _WELCOME, _ENTERS = 1, 2, 4
"""Bits of WELCOMES. _READ: the sender's score was read, which is done once for all GRAFTs of an RPC. _WELCOME: with
this score a peer may be in a mesh. _ENTERS: with this score a GRAFT of the sender is accepted. `exchange.py` has two
more bits."""


@kernel
def _permissions(w: World, th: int, now: int, node: int, slot: int) -> int:
    """Return the bits of WELCOMES; first set them if the sender's score was not read yet (GRAFT-9, THRESHOLD-1).

    Without scores, all three bits are set.
    """
    if not has_scores(w, node):
        return _READ | _WELCOME | _ENTERS
    line = control(w)[th]
    if not line[WELCOMES] & _READ:
        found = score(w, th, now, node, slot)
        welcome = may_be_in_mesh(found)
        taken_in = parameter(w, node, TAKES_UNWELCOME) != 0
        enters = welcome
        if taken_in:
            enters = is_direct(w, node, slot) or gets_published(found, real(w, node, PUBLISH_FROM))
        line[WELCOMES] |= _READ | (_WELCOME if welcome else 0) | (_ENTERS if enters else 0)
    return int(line[WELCOMES])


@kernel
def _is_exempt(w: World, node: int, slot: int, topic: int) -> bool:
    """Return whether a full mesh accepts a peer, because the node dialled it (KEEP-6)."""
    if not parameter(w, node, HAS_11):
        return False
    dialled = dialled_members(w, node, topic)
    rule = parameter(w, node, WHEN_FULL)
    return enters_a_full_mesh(is_dialled(w, slot), rule, dialled, parameter(w, node, DEGREE_OUT))


@kernel
def dialled_members(w: World, node: int, topic: int) -> int:
    """Return the number of members of a mesh that the node dialled."""
    count = 0
    for slot in range(first_slot(w, node), end_slot(w, node)):
        count += int(flags(w)[slot, topic] & IN_MESH != 0 and is_dialled(w, slot))
    return count


@inlined
def is_dialled(w: World, slot: int) -> bool:
    return flags(w)[slot, 0] & DIALLED != 0


@kernel
def _penalise_early(w: World, now: int, node: int, slot: int, topic: int) -> None:
    """Penalise a peer for a GRAFT during its backoff, twice if the GRAFT comes soon after the PRUNE (BACKOFF-7)."""
    until = _backoff_end(w, node, topic, peers(w)[slot])
    flood = is_flood(now, until, parameter(w, node, BACKOFF), parameter(w, node, GRAFT_FLOOD))
    penalise(w, node, slot, real(w, node, EARLY_PENALTY) * (2.0 if flood else 1.0))


@kernel
def _kind_of_prune(w: World, th: int, node: int, slot: int, reason: int, prune: int, welcome: int) -> int:
    """Return the kind of PRUNE that answers a GRAFT; `prune` is the kind that `graft_answer` returned.

    With 1.1, if a GRAFT is refused and the reason is not a full mesh, no PRUNE that answers the same RPC names other
    peers. Nor does a PRUNE to a peer whose score is negative. With EXCHANGE_ALWAYS, every PRUNE that has a backoff
    names other peers.
    """
    if not parameter(w, node, HAS_11):
        return prune
    if parameter(w, node, EXCHANGE_ALWAYS):
        return EXCHANGE_PRUNE if prune == BACKOFF_PRUNE else prune
    if reason != ACCEPTED and reason != MEMBER and reason != MESH_IS_FULL:
        control(w)[th, HIDES_PEERS] = 1
        clear_prune_peers(w, th, slot)
    return prune if welcome & _WELCOME else min(prune, BACKOFF_PRUNE)


@kernel
def on_prune(w: World, th: int, now: int, node: int, slot: int, topic: int, place: int) -> None:
    """Handle a PRUNE. If it names no backoff, the backoff is that of the node's own parameters (BACKOFF-4).

    `place` is the index in the arena of the content that follows the topic (`parts.prune_extras`), -1 for none.
    """
    joined = is_in(w, node, topic)
    extras = arena(w)[place] if place >= 0 else 0
    if joined:
        note_prune(w, now, node, slot, topic, extras)
    trusted = w[HAS_DIALS] != 0 and trusts_exchange(w, th, now, node, slot)
    if has_scores(w, node) and joined and not flags(w)[slot, topic] & IN_MESH:
        times = mesh_times(w)[slot, own_place(w, node, topic)]
        if not times[MESH_BITS] & UNSUBSCRIBED:
            count_prune(w, now, node, slot, topic, False)
        times[MESH_BITS] &= ~UNSUBSCRIBED
    remove_if_member(w, th, now, node, slot, topic)
    own = parameter(w, node, BACKOFF)
    if own and (joined or parameter(w, node, BACKOFF_NOT_JOINED)):
        backoff = received_backoff(extras != 0, backoff_seconds(extras), own, parameter(w, node, MAX_BACKOFF))
        _begin_backoff(w, now, node, topic, peers(w)[slot], backoff)
    if joined and w[HAS_DIALS]:
        dial_named(w, th, now, node, slot, topic, place + 1, others_named(extras), trusted)


@kernel
def peer_unsubscribed(w: World, th: int, now: int, node: int, slot: int, topic: int) -> None:
    """Remove a peer from the mesh of a topic, because it unsubscribes (BACKOFF-5)."""
    if not flags(w)[slot, topic] & IN_MESH:
        return
    if parameter(w, node, BACKOFF_ON_UNSUBSCRIBE):
        _begin_backoff(w, now, node, topic, peers(w)[slot], parameter(w, node, BACKOFF))
    remove_if_member(w, th, now, node, slot, topic)
    if has_scores(w, node):
        mesh_times(w)[slot, own_place(w, node, topic), MESH_BITS] |= UNSUBSCRIBED


@kernel
def remove_if_member(w: World, th: int, now: int, node: int, slot: int, topic: int) -> None:
    """Remove a peer from the mesh of a topic if it is a member, without sending PRUNE."""
    if flags(w)[slot, topic] & IN_MESH:
        _remove_member(w, th, now, node, slot, topic)


@kernel
def graft_if_room(w: World, th: int, now: int, node: int, slot: int, topic: int) -> None:
    """GRAFT a peer unless it is a member, the mesh has no room, or the peer may not be grafted."""
    has_room = has_room_for_one(mesh_size(w, node, topic), parameter(w, node, PRUNE_FROM))
    if flags(w)[slot, topic] & IN_MESH or not has_room:
        return
    if may_graft(w, th, now, node, slot, topic):
        graft(w, th, now, node, slot, topic)


@kernel
def send_membership(w: World, th: int, now: int, node: int, slot: int, topic: int) -> None:
    """Send GRAFT to a peer that is a member, otherwise PRUNE (MESH-4).

    A caller does so because an earlier GRAFT or PRUNE to the peer could not be sent.
    """
    if flags(w)[slot, topic] & IN_MESH:
        put_graft(w, th, slot, topic)
    else:
        left_us = time_left(now, _backoff_end(w, node, topic, peers(w)[slot]))
        _send_prune(w, th, now, node, slot, topic, left_us, WITHOUT_NAMES)


@kernel
def prune(w: World, th: int, now: int, node: int, slot: int, topic: int, occasion: int) -> None:
    """Remove a member from a mesh and send it PRUNE.

    The draw of the peers that the PRUNE names depends on `occasion` (`exchange.py`).
    """
    _remove_member(w, th, now, node, slot, topic)
    _send_backoff(w, th, now, node, slot, topic, parameter(w, node, BACKOFF), occasion)


@kernel
def _send_backoff(w: World, th: int, now: int, node: int, slot: int, topic: int, backoff: int, occasion: int) -> None:
    """Begin a backoff of `backoff` microseconds if the router has backoffs, and send a PRUNE."""
    if parameter(w, node, BACKOFF):
        _begin_backoff(w, now, node, topic, peers(w)[slot], backoff)
    _send_prune(w, th, now, node, slot, topic, backoff, occasion)


@kernel
def _send_prune(w: World, th: int, now: int, node: int, slot: int, topic: int, backoff: int, occasion: int) -> None:
    """Send a PRUNE (MESH-5, BACKOFF-3).

    The PRUNE names the backoff if it is not 0 and both routers support backoffs. Then it also names other peers,
    unless `occasion` is WITHOUT_NAMES, HIDES_PEERS is set or the router has no peer exchange.
    """
    extras = 0
    if backoff > 0 and treatment(w, node, peers(w)[slot]) >= TAKES_BACKOFFS:
        names_others = occasion != WITHOUT_NAMES and parameter(w, node, EXCHANGE) and not control(w)[th, HIDES_PEERS]
        names_at = control(w)[th, NAMES]
        others = 0
        if names_others:
            offered = _offer_others(w, th, now, node, slot, topic)
            others = min(offered, parameter(w, node, EXCHANGE))
            if w[HAS_DIALS]:
                choose_names(w, th, node, slot, topic, occasion, offered, others)
        extras = prune_extras(seconds_to_name(backoff), others, names_at)
    put_prune(w, th, slot, topic, extras)


@kernel
def _offer_others(w: World, th: int, now: int, node: int, slot: int, topic: int) -> int:
    """Return how many other peers a PRUNE may name; if routers dial, pass these peers to `offer_name`.

    They are native subscribers whose scores are not negative.
    """
    count = 0
    for other in range(first_slot(w, node), end_slot(w, node)):
        able = flags(w)[other, topic] & SUBSCRIBED and is_native(w, other) and other != slot
        if able and may_be_in_mesh(score(w, th, now, node, other)):
            if w[HAS_DIALS]:
                offer_name(w, th, count, peers(w)[other])
            count += 1
    return count


@kernel
def _begin_backoff(w: World, now: int, node: int, topic: int, peer: int, backoff: int) -> None:
    """Begin or extend the backoff of a peer (BACKOFF-1, BACKOFF-6).

    If there are then more than MAX_BACKOFFS, forget the one that was begun or extended first.
    """
    until = later_end(lists.value(w, node, BACKOFFS, topic, peer, now), now, backoff)
    lists.remove(w, node, BACKOFFS, topic, peer)
    lists.add(w, node, BACKOFFS, topic, peer, until)
    if lists.length(w, node, BACKOFFS) > parameter(w, node, MAX_BACKOFFS):
        lists.remove_last(w, node, BACKOFFS)
        if w[WITNESSES]:
            witnesses(w)[node] |= FORGETS


@kernel
def _backoff_end(w: World, node: int, topic: int, peer: int) -> int:
    return lists.value(w, node, BACKOFFS, topic, peer, -1)


@kernel
def _forbids_graft(w: World, now: int, node: int, topic: int, peer: int) -> bool:
    """Return whether a backoff forbids the node to GRAFT a peer (BACKOFF-2)."""
    until = _backoff_end(w, node, topic, peer)
    if until >= 0 and parameter(w, node, BACKOFF_LASTS):
        return True
    return until >= 0 and is_early_of_us(now, until, parameter(w, node, BACKOFF_SLACK))


@kernel
def may_graft(w: World, th: int, now: int, node: int, slot: int, topic: int) -> bool:
    """Return whether a peer that is not a member may be grafted.

    It may be if it is not direct, no backoff forbids that, and its score is not negative.
    """
    if is_direct(w, node, slot) or _forbids_graft(w, now, node, topic, peers(w)[slot]):
        return False
    return may_be_in_mesh(score(w, th, now, node, slot))


@kernel
def graft(w: World, th: int, now: int, node: int, slot: int, topic: int) -> None:
    """GRAFT a peer without further checks."""
    _add_member(w, th, now, node, slot, topic)
    put_graft(w, th, slot, topic)


@kernel
def collect_candidates(w: World, th: int, now: int, node: int, topic: int) -> int:
    """Collect as candidates the native subscribers that are not members and may be grafted; return their number."""
    known = candidates(w)[th]
    table = flags(w)
    size = 0
    for slot in range(first_slot(w, node), end_slot(w, node)):
        flag = table[slot, topic]
        able = flag & SUBSCRIBED and not flag & IN_MESH and is_native(w, slot)
        if able and may_graft(w, th, now, node, slot, topic):
            known[size] = slot
            size += 1
    return size


@kernel
def graft_random(
    w: World, th: int, now: int, node: int, topic: int, own: int, total: int, purpose: int, tick: int
) -> None:  # fmt: skip
    """GRAFT random peers: up to `own` with places of their own, then with lent places up to `total` in all.

    Without a limit of places, GRAFT up to `total` random peers.
    """
    if max(own, total) <= 0:
        return
    size = collect_candidates(w, th, now, node, topic)
    state = draw_topic(w, purpose, node, topic, tick)
    if places(w, node):
        count = choose(w, th, node, topic, state, size, own, total, IN_MESH)
    else:
        count = pick(w, th, state, size, total)
    for place in range(count):
        graft(w, th, now, node, candidates(w)[th, place], topic)
