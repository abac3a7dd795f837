"""Messages that peers do not want, and peers that sent copies of messages in validation (`core.mesh.message_memory`).

Layout: UNWANTED_QUEUE is a list of the node, the oldest entry first. For each accepted id of an IDONTWANT it has the
message, the peer, and the number of the last heartbeat. For each message, `unwanted` has a bit for each of the node's
first slots; for other slots the list is searched. `idontwants` has the number of a neighbour's RPCs with IDONTWANT
since the last heartbeat, and the number of accepted ids in them. SENDERS is a list of the node; an entry has a
message in validation and a peer that sent a further copy of the message.
"""

from __future__ import annotations

import numpy as np

from hearsay.core.language.actions import Reason
from hearsay.core.rules.message_rules import accepted_ids, is_forgotten, needs_idontwant
from hearsay.sim.array.compiling import inlined
from hearsay.sim.array.rules.features import gets_no_idontwant
from hearsay.sim.array.travel.outbox import put_idontwant, with_12
from hearsay.sim.array.travel.parts import hops_from
from hearsay.sim.array.travel.uplink import withdraw_copies
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
    TICK,
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
    nodes32,
    peers,
    pool,
    unwanted,
)
from hearsay.sim.array.world.payload import IDONTWANT, message_part
from hearsay.sim.array.world.record import dropped, row
from hearsay.sim.array.world.slots import end_slot, find_slot, first_slot, is_in, parameter, treatment
from hearsay.trace.language.event_rows import reject_row

_RPCS, _IDS = range(2)
"""Fields of `idontwants`."""


@inlined
def uses_idontwant(w: World, node: int) -> bool:
    return w[USES_12] != 0 and parameter(w, node, TELL_FROM) > 0


@inlined
def skips_senders(w: World, node: int) -> bool:
    return w[USES_12] != 0 and parameter(w, node, SKIPS_SENDERS) != 0


@with_12
def send_idontwants(w: World, th: int, node: int, message: int, came_from: int) -> None:
    """Send IDONTWANT for a large message to members of its mesh that support IDONTWANT (IDONTWANT-1, IDONTWANT-6).

    The peer `came_from` gets none, nor do peers that `gets_no_idontwant` excludes.
    """
    info = messages(w)[message]
    topic = info[TOPIC]
    if not is_in(w, node, topic) or not needs_idontwant(info[DATA_BYTES], parameter(w, node, TELL_FROM)):
        return
    for slot in range(first_slot(w, node), end_slot(w, node)):
        peer = peers(w)[slot]
        if flags(w)[slot, topic] & IN_MESH == 0 or peer == came_from or treatment(w, node, peer) < TAKES_IDONTWANT:
            continue
        if not gets_no_idontwant(w, node, slot, topic):
            put_idontwant(w, th, slot, message)


@with_12
def accept_ids(w: World, th: int, now: int, node: int, slot: int, count: int) -> int:
    """Return how many ids of an IDONTWANT are accepted; record the others as ignored (IDONTWANT-2, SHELL-7).

    A router without HEEDS accepts none, and records nothing.
    """
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


@with_12
def on_unwanted(w: World, th: int, now: int, node: int, slot: int, message: int) -> None:
    """Handle an accepted id of an IDONTWANT: remember it, and with WITHDRAWS withdraw copies from the uplink."""
    _remember(w, node, slot, message)
    if parameter(w, node, WITHDRAWS) and w[UPLINK]:
        withdraw_copies(w, th, now, node, slot, message)


@with_12
def _remember(w: World, node: int, slot: int, message: int) -> None:
    """Remember that a neighbour does not want a message (IDONTWANT-5)."""
    peer = peers(w)[slot]
    if is_unwanted(w, node, slot, message):
        forget_unwanted(w, node, message, peer)
    lists.append(w, node, UNWANTED_QUEUE, UNWANTED_LAST, message, peer, nodes32(w)[node, TICK])
    _mark(w, node, slot, message, True)
    more64(w)[node, UNWANTED_COUNT] += 1
    if more64(w)[node, UNWANTED_COUNT] > parameter(w, node, MAX_UNWANTED):
        _forget_oldest(w, node)


@with_12
def _mark(w: World, node: int, slot: int, message: int, marked: bool) -> None:
    """Set or clear the bit of a neighbour and a message in `unwanted`, if they have one."""
    place = slot - nodes32(w)[node, FIRST_SLOT]
    if message >= w[FIRST_MESSAGE] and place >> 6 < unwanted(w).shape[2]:
        line = unwanted(w)[node, column(w, message)]
        bit = np.uint64(1) << np.uint64(place & 63)
        line[place >> 6] = line[place >> 6] | bit if marked else line[place >> 6] & ~bit


@with_12
def is_unwanted(w: World, node: int, slot: int, message: int) -> bool:
    place = slot - nodes32(w)[node, FIRST_SLOT]
    if message >= w[FIRST_MESSAGE] and place >> 6 < unwanted(w).shape[2]:
        word = unwanted(w)[node, column(w, message), place >> 6]
        return word >> np.uint64(place & 63) & np.uint64(1) != np.uint64(0)
    return lists.find(w, node, UNWANTED_QUEUE, message, peers(w)[slot]) >= 0


@with_12
def _forget_oldest(w: World, node: int) -> None:
    header = more32(w)[node]
    place = header[UNWANTED_QUEUE - NODE32]
    entry = pool(w)[lists.owner(w, node), place]
    header[UNWANTED_QUEUE - NODE32] = entry[lists.NEXT]
    if entry[lists.NEXT] < 0:
        header[UNWANTED_LAST - NODE32] = -1
    _mark(w, node, find_slot(w, node, entry[lists.SECOND]), entry[lists.FIRST], False)
    lists.free_entry(w, lists.owner(w, node), place)
    more64(w)[node, UNWANTED_COUNT] -= 1


@with_12
def forget_unwanted(w: World, node: int, message: int, peer: int) -> None:
    """Forget that a peer does not want a message, or, if `message` is -1, all messages that it does not want."""
    slot = find_slot(w, node, peer)
    header = more32(w)[node]
    entries = pool(w)[lists.owner(w, node)]
    before = -1
    place = header[UNWANTED_QUEUE - NODE32]
    while place >= 0:
        following = entries[place, lists.NEXT]
        if entries[place, lists.SECOND] == peer and (message < 0 or entries[place, lists.FIRST] == message):
            _mark(w, node, slot, entries[place, lists.FIRST], False)
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


@with_12
def reset_counts(w: World, slot: int) -> None:
    """Set the counts of a neighbour in `idontwants` to 0."""
    idontwants(w)[slot, _RPCS] = 0
    idontwants(w)[slot, _IDS] = 0


@with_12
def forget_all_unwanted(w: World, node: int) -> None:
    while more32(w)[node, UNWANTED_QUEUE - NODE32] >= 0:
        _forget_oldest(w, node)


@with_12
def set_bits_again(w: World, node: int) -> None:
    """Set the bits of `unwanted` again after neighbours moved to other slots."""
    entries = pool(w)[lists.owner(w, node)]
    for marks in (False, True):
        place = more32(w)[node, UNWANTED_QUEUE - NODE32]
        while place >= 0:
            message = entries[place, lists.FIRST]
            if marks:
                _mark(w, node, find_slot(w, node, entries[place, lists.SECOND]), message, True)
            elif message >= w[FIRST_MESSAGE]:
                for part in range(unwanted(w).shape[2]):
                    unwanted(w)[node, column(w, message), part] = np.uint64(0)
            place = entries[place, lists.NEXT]


@with_12
def forget_old_unwanted(w: World, node: int, tick: int) -> None:
    """At a heartbeat, forget IDONTWANTs that are UNWANTED_TICKS heartbeats old; reset all counts (IDONTWANT-3)."""
    entries = pool(w)[lists.owner(w, node)]
    while True:
        place = more32(w)[node, UNWANTED_QUEUE - NODE32]
        if place < 0 or not is_forgotten(entries[place, lists.VALUE], tick, parameter(w, node, UNWANTED_TICKS)):
            break
        _forget_oldest(w, node)
    for slot in range(first_slot(w, node), end_slot(w, node)):
        reset_counts(w, slot)


# Copies.


@with_12
def without_unwanted(w: World, th: int, now: int, node: int, message: int, via: int, size: int) -> int:
    """Keep the candidates that want a message and did not send it while it was validated; return their number.

    Copies that are unwanted are recorded as dropped, except those to the publisher (IDONTWANT-4, IDONTWANT-7).
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


@with_12
def note_sender(w: World, node: int, message: int, sender: int) -> None:
    """Note that a peer sent a further copy of a message that is being validated."""
    if bits(cells(w)[node, column(w, message)], ASKED) and not is_sender(w, node, message, sender):
        lists.add(w, node, SENDERS, message, sender, 0)


@with_12
def is_sender(w: World, node: int, message: int, peer: int) -> bool:
    return lists.find(w, node, SENDERS, message, peer) >= 0


@with_12
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
