"""Applications that use partial messages, and what they do after a call of the router
(`sim.reference.action_handler`).

After a call, the applications of the node get the messages that the call delivered, and the partial message that the
call received. After a heartbeat, applications also request late parts from other peers. When an application publishes
parts, it makes another call of the router.
"""

from __future__ import annotations

from hearsay.sim.array.rules.features import with_parts
from hearsay.sim.array.rules.forwarding import publish_message, use_fanout
from hearsay.sim.array.rules.held_parts import (
    NOTHING,
    USEFUL,
    add_parts,
    becomes_complete,
    hold_all,
    request_late_parts_again,
)
from hearsay.sim.array.rules.membership import send_outbox
from hearsay.sim.array.rules.partials import (
    HAS_CLAIM,
    HAS_PARTS,
    HELD_SET,
    MESSAGE_AT,
    PARTS_SET,
    TO_ALL,
    TO_CHANGED,
    index_of_set,
    publish_parts,
)
from hearsay.sim.array.rules.scores import count_first_delivery
from hearsay.sim.array.travel.parts import hops_from
from hearsay.sim.array.world.knowledge import column
from hearsay.sim.array.world.layout import (
    APPLICATION,
    CHOSEN,
    EXCHANGES_PARTS,
    FIRST_GROUP,
    HANDED,
    IN_FANOUT,
    IN_MESH,
    OWN_FEATURES,
    REMINDS,
    TOPIC,
    TOPICS,
    USE,
    World,
    arena,
    control,
    counts,
    group_of,
    handed,
    members,
    messages,
    part_heads,
    part_lines,
    part_topics,
    peers,
)
from hearsay.sim.array.world.part_lines import IS_OWN, MESSAGE, NEXT_GROUP, STATE
from hearsay.sim.array.world.record import EVENTS
from hearsay.sim.array.world.slots import is_in, parameter


@with_parts
def choose_partials(w: World, th: int, node: int) -> None:
    """When a node starts, set CHOSEN for the topics of its application that have partial messages (PARTIAL-1).

    Do nothing if the router does not have the extension.
    """
    if not parameter(w, node, OWN_FEATURES) & EXCHANGES_PARTS:
        return
    for topic in range(w[TOPICS]):
        if part_topics(w)[topic, USE] and members(w)[node, topic] & APPLICATION:
            part_heads(w)[node, topic, CHOSEN] = 1
            counts(w)[th, EVENTS] += 1


@with_parts
def pass_to_applications(w: World, th: int, now: int, node: int) -> None:
    """Pass the messages in `handed`, which were delivered, to a node's applications.

    An application that lacks parts of such a message now holds all parts, and publishes the parts to all peers. If
    REMINDS is set, applications also request late parts from other peers, in groups in which they have published
    (PARTIAL-10).
    """
    line = control(w)[th]
    delivered = line[HANDED]
    line[HANDED] = 0
    for place in range(delivered):
        message = handed(w)[th, place]
        if hold_all(w, node, message):
            _publish(w, th, now, node, message, TO_ALL)
    if not line[REMINDS]:
        return
    line[REMINDS] = 0
    for topic in range(w[TOPICS]):
        group = part_heads(w)[node, topic, FIRST_GROUP] if part_heads(w)[node, topic, CHOSEN] else 0
        while group:
            following = part_lines(w)[group, NEXT_GROUP]
            if part_lines(w)[group, STATE] & IS_OWN and request_late_parts_again(w, group):
                _publish(w, th, now, node, part_lines(w)[group, MESSAGE], TO_CHANGED)
            group = following


@with_parts
def receive_parts(w: World, th: int, now: int, node: int, slot: int, content: int) -> None:
    """Pass an accepted partial message to the application, which publishes its own parts and claims in answer.

    If the node now has all parts of the message for the first time, the application also publishes the message.
    `content` is the index of the partial message's content in the arena.
    """
    message = arena(w)[content + MESSAGE_AT]
    peer = peers(w)[slot]
    parts = index_of_set(w, content, PARTS_SET, HAS_PARTS)
    result = add_parts(w, node, message, peer, parts, index_of_set(w, content, HELD_SET, HAS_CLAIM))
    is_complete = result != NOTHING and becomes_complete(w, group_of(w)[node, column(w, message)])
    if result == USEFUL:
        counts(w)[th, EVENTS] += 1
        count_first_delivery(w, node, slot, messages(w)[message, TOPIC])
    _publish(w, th, now, node, message, slot if result == NOTHING else TO_ALL)
    if is_complete:
        counts(w)[th, EVENTS] += 1
        publish_message(w, th, now, node, message, peer, hops_from(w, peer, message), -1)
        control(w)[th, HANDED] = 0  # the application holds all parts already
        send_outbox(w, th, now, node)


@with_parts
def _publish(w: World, th: int, now: int, node: int, message: int, to: int) -> None:
    topic = messages(w)[message, TOPIC]
    counts(w)[th, EVENTS] += 1
    routed = IN_MESH
    if not is_in(w, node, topic):
        routed = IN_FANOUT
        use_fanout(w, th, now, node, topic)
    publish_parts(w, th, node, message, to, routed)
    send_outbox(w, th, now, node)
