"""Messages that peers do not want, and other peers that sent a message in validation (`core.mesh.message_memory`).

Layout: UNWANTED_QUEUE is a list of the node with the message, the peer and the heartbeat of each IDONTWANT, the
oldest first. `unwanted` has a bit for each of a node's first neighbours, in the order of its slots; for other
neighbours the list is searched. `idontwants` counts a neighbour's RPCs with IDONTWANT, and their ids, since the last
heartbeat. SENDERS is a list of the node with messages in validation and peers that sent them after the first peer.
"""

from __future__ import annotations

import numpy as np

from hearsay.core.language.actions import Reason
from hearsay.core.rules.message_rules import accepted_ids, is_forgotten, is_worth_telling
from hearsay.sim.array.machine.compiling import inlined, only_with
from hearsay.sim.array.rules.features import spares
from hearsay.sim.array.travel.outbox import put_unwanted
from hearsay.sim.array.travel.parts import hops_from
from hearsay.sim.array.travel.uplink import withdraw
from hearsay.sim.array.world import lists
from hearsay.sim.array.world.knowledge import bits, column
from hearsay.sim.array.world.layout import (
    ASKED,
    DATA_BYTES,
    FIRST_MESSAGE,
    FIRST_SLOT,
    HEEDS,
    IN_MESH,
    MAX_UNWANTED,
    MAX_UNWANTED_IDS,
    MAX_UNWANTED_OF_PEER,
    MAX_UNWANTED_RPCS,
    NODE32,
    PUBLISHER,
    SENDERS,
    SKIPS_SENDERS,
    TAKES_IDONTWANT,
    TELL_FROM,
    TOPIC,
    UNWANTED_COUNT,
    UNWANTED_LAST,
    UNWANTED_QUEUE,
    UNWANTED_TICKS,
    UPLINK,
    USES_12,
    WITHDRAWS,
    World,
    candidates,
    cells,
    flags,
    idontwants,
    messages,
    more32,
    more64,
    natives,
    nodes32,
    peers,
    pool,
    unwanted,
)
from hearsay.sim.array.world.layout import TICK as TICKS
from hearsay.sim.array.world.payload import IDONTWANT, message_part
from hearsay.sim.array.world.record import dropped, row
from hearsay.sim.array.world.slots import end_slot, find_slot, first_slot, is_in, parameter, router
from hearsay.trace.language.event_rows import reject_row

part_of_12 = only_with(USES_12)
_RPCS, _IDS = range(2)
"""Fields of `idontwants`."""


@inlined
def uses_idontwant(w: World, node: int) -> bool:
    return w[USES_12] != 0 and parameter(w, node, TELL_FROM) > 0


@inlined
def skips_senders(w: World, node: int) -> bool:
    return w[USES_12] != 0 and parameter(w, node, SKIPS_SENDERS) != 0


@inlined
def leaves_out_some(w: World, node: int) -> bool:
    """Return whether some neighbours may get no copy of a message."""
    return uses_idontwant(w, node) or skips_senders(w, node)


@part_of_12
def tell_mesh(w: World, th: int, node: int, message: int, came_from: int) -> None:
    """Send IDONTWANT to the mesh if a message is large, but not to `came_from` (IDONTWANT-1, IDONTWANT-6)."""
    info = messages(w)[message]
    topic = info[TOPIC]
    if not is_in(w, node, topic) or not is_worth_telling(info[DATA_BYTES], parameter(w, node, TELL_FROM)):
        return
    for slot in range(first_slot(w, node), end_slot(w, node)):
        peer = peers(w)[slot]
        if flags(w)[slot, topic] & IN_MESH == 0 or peer == came_from or not _takes_idontwant(w, node, peer):
            continue
        if not spares(w, node, slot, topic):
            put_unwanted(w, th, slot, message)


@inlined
def _takes_idontwant(w: World, node: int, peer: int) -> bool:
    return natives(w)[router(w, node), router(w, peer)] >= TAKES_IDONTWANT


@part_of_12
def accepted_of(w: World, th: int, now: int, node: int, slot: int, count: int) -> int:
    """Return how many ids of an IDONTWANT are accepted; report the others as dropped (IDONTWANT-2, SHELL-7)."""
    reason = Reason.OVER_LIMIT
    accepted = 0
    if not uses_idontwant(w, node):
        reason = Reason.UNSUPPORTED
    elif not parameter(w, node, HEEDS):
        return 0
    else:
        line = idontwants(w)[slot]
        accepted = accepted_ids(
            line[_RPCS],
            parameter(w, node, MAX_UNWANTED_RPCS),
            count,
            parameter(w, node, MAX_UNWANTED_IDS),
            line[_IDS],
            parameter(w, node, MAX_UNWANTED_OF_PEER),
        )
        line[_RPCS] += 1
        line[_IDS] += accepted
    if accepted < count:
        row(w, th, reject_row(now, IDONTWANT, node, peers(w)[slot], -1, -1, count - accepted, reason))
    return accepted


@part_of_12
def heed(w: World, th: int, now: int, node: int, slot: int, message: int) -> None:
    _remember(w, node, slot, message)
    if parameter(w, node, WITHDRAWS) and w[UPLINK]:
        withdraw(w, th, now, node, slot, message)


@part_of_12
def _remember(w: World, node: int, slot: int, message: int) -> None:
    """Remember that a neighbour does not want a message (IDONTWANT-5)."""
    peer = peers(w)[slot]
    if is_unwanted(w, node, slot, message):
        _remove(w, node, message, peer)
    place = lists.new_entry(w, node)
    entry = pool(w)[lists.owner(w, node), place]
    entry[lists.NEXT] = -1
    entry[lists.FIRST] = message
    entry[lists.SECOND] = peer
    entry[lists.VALUE] = nodes32(w)[node, TICKS]
    header = more32(w)[node]
    last = header[UNWANTED_LAST - NODE32]
    if last < 0:
        header[UNWANTED_QUEUE - NODE32] = place
    else:
        pool(w)[lists.owner(w, node), last, lists.NEXT] = place
    header[UNWANTED_LAST - NODE32] = place
    _set_bit(w, node, slot, message)
    more64(w)[node, UNWANTED_COUNT] += 1
    if more64(w)[node, UNWANTED_COUNT] > parameter(w, node, MAX_UNWANTED):
        _forget_oldest(w, node)


@part_of_12
def _set_bit(w: World, node: int, slot: int, message: int) -> None:
    port = slot - nodes32(w)[node, FIRST_SLOT]
    if message >= w[FIRST_MESSAGE] and port >> 6 < unwanted(w).shape[2]:
        unwanted(w)[node, column(w, message), port >> 6] |= np.uint64(1) << np.uint64(port & 63)


@part_of_12
def _clear_bit(w: World, node: int, slot: int, message: int) -> None:
    port = slot - nodes32(w)[node, FIRST_SLOT]
    if message >= w[FIRST_MESSAGE] and port >> 6 < unwanted(w).shape[2]:
        unwanted(w)[node, column(w, message), port >> 6] &= ~(np.uint64(1) << np.uint64(port & 63))


@part_of_12
def is_unwanted(w: World, node: int, slot: int, message: int) -> bool:
    port = slot - nodes32(w)[node, FIRST_SLOT]
    if message >= w[FIRST_MESSAGE] and port >> 6 < unwanted(w).shape[2]:
        word = unwanted(w)[node, column(w, message), port >> 6]
        return word >> np.uint64(port & 63) & np.uint64(1) != np.uint64(0)
    return lists.find(w, node, UNWANTED_QUEUE, message, peers(w)[slot]) >= 0


@part_of_12
def _forget_oldest(w: World, node: int) -> None:
    header = more32(w)[node]
    place = header[UNWANTED_QUEUE - NODE32]
    entry = pool(w)[lists.owner(w, node), place]
    header[UNWANTED_QUEUE - NODE32] = entry[lists.NEXT]
    if entry[lists.NEXT] < 0:
        header[UNWANTED_LAST - NODE32] = -1
    _clear_bit(w, node, find_slot(w, node, entry[lists.SECOND]), entry[lists.FIRST])
    lists.free_entry(w, lists.owner(w, node), place)
    more64(w)[node, UNWANTED_COUNT] -= 1


@part_of_12
def _remove(w: World, node: int, message: int, peer: int) -> None:
    """Remove a peer's entry for a message from the queue; all entries of the peer if the message is -1."""
    slot = find_slot(w, node, peer)
    header = more32(w)[node]
    entries = pool(w)[lists.owner(w, node)]
    before = -1
    place = header[UNWANTED_QUEUE - NODE32]
    while place >= 0:
        following = entries[place, lists.NEXT]
        if entries[place, lists.SECOND] == peer and (message < 0 or entries[place, lists.FIRST] == message):
            _clear_bit(w, node, slot, entries[place, lists.FIRST])
            if before < 0:
                header[UNWANTED_QUEUE - NODE32] = following
            else:
                entries[before, lists.NEXT] = following
            if following < 0:
                header[UNWANTED_LAST - NODE32] = before
            lists.free_entry(w, lists.owner(w, node), place)
            more64(w)[node, UNWANTED_COUNT] -= 1
        else:
            before = place
        place = following


@part_of_12
def begin_connection(w: World, slot: int) -> None:
    idontwants(w)[slot, _RPCS] = 0
    idontwants(w)[slot, _IDS] = 0


@part_of_12
def end_connection(w: World, node: int, slot: int) -> None:
    _remove(w, node, -1, peers(w)[slot])


@part_of_12
def forget_all_unwanted(w: World, node: int) -> None:
    while more32(w)[node, UNWANTED_QUEUE - NODE32] >= 0:
        _forget_oldest(w, node)


@part_of_12
def number_again(w: World, node: int) -> None:
    """Set the bits of `unwanted` again after neighbours moved to other slots."""
    entries = pool(w)[lists.owner(w, node)]
    for marks in (False, True):
        place = more32(w)[node, UNWANTED_QUEUE - NODE32]
        while place >= 0:
            message = entries[place, lists.FIRST]
            if marks:
                _set_bit(w, node, find_slot(w, node, entries[place, lists.SECOND]), message)
            elif message >= w[FIRST_MESSAGE]:
                for part in range(unwanted(w).shape[2]):
                    unwanted(w)[node, column(w, message), part] = np.uint64(0)
            place = entries[place, lists.NEXT]


@part_of_12
def forget_old_unwanted(w: World, node: int, tick: int) -> None:
    """Forget old entries at a heartbeat, and restart the counts of neighbours (IDONTWANT-3)."""
    entries = pool(w)[lists.owner(w, node)]
    while True:
        place = more32(w)[node, UNWANTED_QUEUE - NODE32]
        if place < 0 or not is_forgotten(entries[place, lists.VALUE], tick, parameter(w, node, UNWANTED_TICKS)):
            break
        _forget_oldest(w, node)
    for slot in range(first_slot(w, node), end_slot(w, node)):
        begin_connection(w, slot)


# Copies.


@part_of_12
def who_want(w: World, th: int, now: int, node: int, message: int, via: int, size: int) -> int:
    """Keep the candidates that want a message and have not sent it; return their number.

    Unwanted copies are recorded as dropped (IDONTWANT-4, IDONTWANT-7).
    """
    known = candidates(w)[th]
    has_senders = lists.first_entry(w, node, SENDERS) >= 0
    heeds = more64(w)[node, UNWANTED_COUNT] > 0
    kept = 0
    for place in range(size):
        slot = known[place]
        peer = peers(w)[slot]
        if has_senders and is_sender(w, node, message, peer):
            continue
        if heeds and is_unwanted(w, node, slot, message):
            if peer != messages(w)[message, PUBLISHER]:
                part = message_part(w, message, hops_from(w, node, message), via)
                dropped(w, th, now, node, peer, part, Reason.UNWANTED)
            continue
        known[kept] = slot
        kept += 1
    return kept


@part_of_12
def note_sender(w: World, node: int, message: int, sender: int) -> None:
    """Note that another peer sent a message that is being validated."""
    if bits(cells(w)[node, column(w, message)], ASKED) and not is_sender(w, node, message, sender):
        lists.add(w, node, SENDERS, message, sender, 0)


@part_of_12
def is_sender(w: World, node: int, message: int, peer: int) -> bool:
    return lists.find(w, node, SENDERS, message, peer) >= 0


@part_of_12
def forget_senders(w: World, node: int, message: int) -> None:
    lists.remove(w, node, SENDERS, message, -1)


@part_of_12
def forget_old_senders(w: World, node: int) -> None:
    """Forget the senders of messages that are not being validated any more."""
    entries = pool(w)[lists.owner(w, node)]
    place = lists.first_entry(w, node, SENDERS)
    while place >= 0:
        following = entries[place, lists.NEXT]
        message = entries[place, lists.FIRST]
        if message < w[FIRST_MESSAGE] or not bits(cells(w)[node, column(w, message)], ASKED):
            lists.remove(w, node, SENDERS, message, entries[place, lists.SECOND])
        place = following
