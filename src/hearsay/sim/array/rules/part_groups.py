"""Kernels of `core.mesh.partials.Groups`: the groups of partial messages that the router knows.

A group is all parts of one message at one node. The group and its peers are lines of `part_lines`.
"""

from __future__ import annotations

from hearsay.core.mesh.partials import MAX_GROUPS
from hearsay.core.rules.partial_rules import ACCEPTED, group_refusal, is_over
from hearsay.sim.array.rules.features import with_parts
from hearsay.sim.array.world.knowledge import column
from hearsay.sim.array.world.layout import (
    FIRST_GROUP,
    GROUP_BEATS,
    MAX_GROUPS_OF_PEER,
    MAX_PEER_GROUPS,
    SERIALS,
    TOPIC,
    TOPICS,
    World,
    group_of,
    messages,
    part_heads,
    part_lines,
)
from hearsay.sim.array.world.part_lines import (
    BEATS_LEFT,
    FIRST_PEER,
    GIVEN,
    IS_NOTED,
    IS_OWN,
    IS_PEERS,
    KNOWN_TO_ROUTER,
    MARKS,
    MESSAGE,
    NEXT_GROUP,
    NEXT_PEER,
    OF_ROUTER,
    OPENER,
    SERIAL,
    STATE,
    clear,
    find_peer,
    free_group_if_unknown,
    group_at,
    peer_at,
    unmark_peer,
    unmark_peers,
    without_line,
)
from hearsay.sim.array.world.slots import parameter

NO_PEER = -1


@with_parts
def find_group(w: World, node: int, message: int) -> int:
    """Return the line of a message's group if the router knows it, otherwise 0."""
    group = group_of(w)[node, column(w, message)]
    return int(group) if group and part_lines(w)[group, STATE] & KNOWN_TO_ROUTER else 0


@with_parts
def own_group(w: World, node: int, message: int, to_all: bool) -> int:
    """Return the group of a message in which the application publishes (PARTIAL-8, PARTIAL-9).

    Add the group if the router does not know it. If the application publishes to all peers, the group no
    longer counts as opened by a peer.
    """
    group = find_group(w, node, message)
    if not group:
        group = _add(w, node, message, NO_PEER)
    line = part_lines(w)[group]
    line[STATE] |= IS_OWN
    line[BEATS_LEFT] = parameter(w, node, GROUP_BEATS)
    if to_all:
        line[STATE] &= ~IS_PEERS
        line[OPENER] = NO_PEER
    return group


@with_parts
def group_for_peer(w: World, node: int, message: int, peer: int) -> int:
    """Return the group of a peer's partial message; add the group if the router does not know it (PARTIAL-9).

    If the peer may not open the group, return -1 minus the reason.
    """
    group = find_group(w, node, message)
    if group:
        return group
    opened = 0
    opened_by_peer = 0
    group = part_heads(w)[node, messages(w)[message, TOPIC], FIRST_GROUP]
    while group:
        opened += int(part_lines(w)[group, STATE] & IS_PEERS != 0)
        opened_by_peer += int(part_lines(w)[group, OPENER] == peer)
        group = part_lines(w)[group, NEXT_GROUP]
    reason = group_refusal(
        opened, parameter(w, node, MAX_PEER_GROUPS), opened_by_peer, parameter(w, node, MAX_GROUPS_OF_PEER)
    )
    return _add(w, node, message, peer) if reason == ACCEPTED else -1 - reason


@with_parts
def _add(w: World, node: int, message: int, opener: int) -> int:
    """Add a group that the peer `opener` opened; NO_PEER stands for the application (PARTIAL-9).

    If the topic then has more than MAX_GROUPS groups, forget the oldest one.
    """
    group = group_at(w, node, message)
    head = part_heads(w)[node, messages(w)[message, TOPIC]]
    head[SERIALS] += 1
    line = part_lines(w)[group]
    line[STATE] |= KNOWN_TO_ROUTER | (IS_PEERS if opener != NO_PEER else 0)
    line[OPENER] = opener
    line[BEATS_LEFT] = parameter(w, node, GROUP_BEATS)
    line[SERIAL] = head[SERIALS]
    before = 0
    following = int(head[FIRST_GROUP])
    oldest = group
    count = 1
    while following:
        if part_lines(w)[following, MESSAGE] < message:
            before = following
        if part_lines(w)[following, SERIAL] < part_lines(w)[oldest, SERIAL]:
            oldest = following
        count += 1
        following = int(part_lines(w)[following, NEXT_GROUP])
    if before:
        line[NEXT_GROUP] = part_lines(w)[before, NEXT_GROUP]
        part_lines(w)[before, NEXT_GROUP] = group
    else:
        line[NEXT_GROUP] = head[FIRST_GROUP]
        head[FIRST_GROUP] = group
    if count > MAX_GROUPS:
        _forget(w, node, oldest)
    return group


@with_parts
def _forget(w: World, node: int, group: int) -> None:
    """Remove a group from those that the router knows. The application may still hold parts of the group."""
    line = part_lines(w)[group]
    topic = messages(w)[line[MESSAGE], TOPIC]
    head = part_heads(w)[node, topic]
    head[FIRST_GROUP] = without_line(w, head[FIRST_GROUP], group, NEXT_GROUP)
    peer = line[FIRST_PEER]
    while peer:
        following = part_lines(w)[peer, NEXT_PEER]
        forget_notes(w, group, peer)
        peer = following
    line[STATE] &= ~(KNOWN_TO_ROUTER | IS_OWN | IS_PEERS)
    free_group_if_unknown(w, node, group)


@with_parts
def forget_notes(w: World, group: int, line: int) -> None:
    """Forget the router's notes about a peer in a group."""
    clear(w, line, GIVEN)
    unmark_peer(w, group, line, OF_ROUTER)


@with_parts
def note_peer(w: World, group: int, peer: int) -> int:
    line = peer_at(w, group, peer)
    part_lines(w)[line, MARKS] |= IS_NOTED
    return line


@with_parts
def is_noted(w: World, group: int, peer: int) -> bool:
    line = find_peer(w, group, peer)
    return line > 0 and part_lines(w)[line, MARKS] & IS_NOTED != 0


@with_parts
def forget_groups_of_peer(w: World, node: int, peer: int) -> None:
    """Forget the notes about a peer that disconnects (PARTIAL-8).

    Also forget the groups that have no notes about any other peer, and in which the application has not published.
    """
    for topic in range(w[TOPICS]):
        group = part_heads(w)[node, topic, FIRST_GROUP]
        while group:
            following = part_lines(w)[group, NEXT_GROUP]
            line = find_peer(w, group, peer)
            if line:
                forget_notes(w, group, line)
            if part_lines(w)[group, OPENER] == peer:
                part_lines(w)[group, OPENER] = NO_PEER
            if not part_lines(w)[group, STATE] & IS_OWN and not _has_notes(w, group):
                _forget(w, node, group)
            group = following


@with_parts
def _has_notes(w: World, group: int) -> bool:
    line = part_lines(w)[group, FIRST_PEER]
    while line and not part_lines(w)[line, MARKS] & IS_NOTED:
        line = part_lines(w)[line, NEXT_PEER]
    return line != 0


@with_parts
def leave_groups(w: World, node: int, topic: int) -> None:
    """Forget the groups of a topic that is left (PARTIAL-8)."""
    while part_heads(w)[node, topic, FIRST_GROUP]:
        _forget(w, node, part_heads(w)[node, topic, FIRST_GROUP])


@with_parts
def age_groups(w: World, node: int) -> None:
    """At a heartbeat, forget groups, and count one heartbeat fewer for the other groups (PARTIAL-8).

    A group is forgotten if it has no heartbeats left, or if the application has not published in it and it has no
    notes about peers.
    """
    for topic in range(w[TOPICS]):
        group = part_heads(w)[node, topic, FIRST_GROUP]
        while group:
            line = part_lines(w)[group]
            following = line[NEXT_GROUP]
            if is_over(line[BEATS_LEFT], line[STATE] & IS_OWN != 0, _has_notes(w, group)):
                _forget(w, node, group)
            else:
                line[BEATS_LEFT] -= 1
            group = following


@with_parts
def forget_all_groups(w: World, node: int) -> None:
    """Forget all groups of a node that stops, including the parts that its applications hold."""
    for at in range(group_of(w).shape[1]):
        group = group_of(w)[node, at]
        if group:
            unmark_peers(w, group, ~0)
            part_lines(w)[group, STATE] = 0
            free_group_if_unknown(w, node, group)
    for topic in range(w[TOPICS]):
        for field in range(part_heads(w).shape[2]):
            part_heads(w)[node, topic, field] = 0
