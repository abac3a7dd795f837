"""Functions that build the arrays for nodes, neighbours, routers' parameters, topics and messages from the plan.

In all functions `order` has the numbers of the topics in the order of their names, and `place_of` the place of each
topic in this order.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

import numpy as np
from numpy.typing import NDArray

from hearsay.core.language.actions import Reason
from hearsay.core.language.events import Verdict
from hearsay.core.language.rpc import FLOODSUB, Message, Rpc, knows_backoff, knows_extensions, knows_idontwant
from hearsay.core.language.sizes import message_footprint, message_size, part_sizes
from hearsay.core.language.sizes import rpc_framed_size as framed_size
from hearsay.core.mesh.parameters import GossipsubParameters
from hearsay.core.registry import negotiate
from hearsay.core.rules.randomness import Purpose, Randomness, key_of
from hearsay.core.scores.records import SharedAddresses
from hearsay.core.shell.peers import subscription_bytes
from hearsay.core.shell.received_parts import SubscriptionFilter
from hearsay.core.shell.strategy import Strategy
from hearsay.sim.array.compiling import lines_at_most
from hearsay.sim.array.router_parameters import parameter_line, real_line, topic_lines
from hearsay.sim.array.world import layout as at
from hearsay.sim.array.world import queue
from hearsay.sim.array.world.layout import Arrays
from hearsay.sim.array.world.queue import GOSSIP_SPAN
from hearsay.sim.plan.draws import chosen
from hearsay.sim.plan.engines import direct_pairs, routers_dial
from hearsay.sim.plan.network import addresses
from hearsay.sim.plan.plan import Plan, Verdicts


def set_topics(arrays: Arrays, plan: Plan, order: Sequence[int]) -> None:
    names = [plan.topics[topic] for topic in order]
    table = [
        [topic, len(name.encode()), message_footprint(Message(0, name, b"", 0)), subscription_bytes(name)]
        for topic, name in zip(order, names, strict=True)
    ]
    arrays["topics"] = np.array(table, dtype=np.int64)
    arrays["topic_keys"] = np.array([key_of(name) for name in names], dtype=np.uint64)


def set_messages(arrays: Arrays, plan: Plan, place_of: dict[int, int]) -> None:
    """Set `messages`. The array has one more line than there are messages: in this last line, INJECT_FROM is the end
    of the last message's lines in `inject_targets`."""
    table = np.zeros((len(plan.publications) + 1, 8), dtype=np.int64)
    sizes: dict[tuple[int, int], tuple[int, int, int]] = {}
    injected = 0
    for publication in plan.publications:
        key = (publication.topic, publication.size_bytes)
        if key not in sizes:
            sizes[key] = _message_sizes(plan.topics[publication.topic], publication.size_bytes)
        alone, part, held = sizes[key]
        table[publication.message] = (
            place_of[publication.topic], publication.publisher, publication.time_us, publication.size_bytes,
            alone, part, held, injected,
        )  # fmt: skip
        injected += len(publication.inject)
    table[-1, at.INJECT_FROM] = injected
    arrays["messages"] = table
    targets = [target for publication in plan.publications for target in publication.inject]
    arrays["inject_targets"] = np.array(targets or [0], dtype=np.int64)


_REASONS = {Verdict.REJECT: Reason.REJECTED, Verdict.IGNORE: Reason.IGNORED}


def set_verdicts(arrays: Arrays, plan: Plan, verdicts: Verdicts) -> None:
    """Set the applications' verdicts on messages. Line 0 of `accepting` has no nodes, and exists even in a run
    without verdicts."""
    w = arrays.world
    judged = plan.publications if w[at.HAS_VERDICTS] else ()
    arrays.make("verdicts", len(judged) + 1, at.REACHED_OF + int(w[at.THREADS]))
    nodes_of: list[Container[int]] = [()]
    for publication in judged:
        verdict, accepting = verdicts.of_all(publication.message)
        if accepting not in nodes_of:
            nodes_of.append(accepting)
        line = arrays["verdicts"][publication.message]
        line[at.REASON] = _REASONS.get(verdict, -1)
        line[at.ACCEPTING] = nodes_of.index(accepting)
    nodes = range(int(w[at.NODES]) if judged else 1)
    arrays["accepting"] = np.array([[node in some for node in nodes] for some in nodes_of], dtype=np.uint8)


def _message_sizes(topic: str, size_bytes: int) -> tuple[int, int, int]:
    """Return three numbers of bytes for a message: of an RPC with only this message and of its length prefix; of the
    message as a part of an RPC; and of the encoded message alone."""
    message = Message(0, topic, bytes(size_bytes), 0)
    alone = Rpc(messages=(message,))
    parts = part_sizes(alone)
    return framed_size(alone, parts), parts[0][2], message_size(message)


_FOREVER = 1 << 60


def set_routers(arrays: Arrays, plan: Plan) -> None:
    arrays["parameters"] = np.array([parameter_line(kind.name, parameters) for kind, parameters in plan.routers])
    arrays.world[at.ROUTERS] = len(plan.routers)
    table = arrays["parameters"]
    scalars = {at.HAS_SCORES: at.SCORES, at.HAS_GATER: at.GATES, at.HAS_PLACES: at.PLACES, at.HAS_FILTERS: at.FILTERS}
    for scalar, field in scalars.items():
        arrays.world[scalar] = bool(table[:, field].any())
    arrays.world[at.USES_12] = bool(table[:, [at.TELL_FROM, at.SKIPS_SENDERS]].any())
    arrays.world[at.USES_11] = bool(table[:, [at.HAS_11, at.ASK_AGAIN]].any()) or routers_dial(plan.scenario)
    arrays.world[at.HAS_EPISUB] = bool((table[:, at.ROUTER_KIND] == at.EPISUB).any())
    arrays["reals"] = np.array([real_line(parameters) for _, parameters in plan.routers], dtype=np.float64)
    topics = sorted(plan.topics)
    lines = [[topic_lines(parameters, topic) for topic in topics] for _, parameters in plan.routers]
    arrays["topic_reals"] = np.array([[reals for reals, _ in line] for line in lines], dtype=np.float64)
    arrays["topic_times"] = np.array([[times for _, times in line] for line in lines], dtype=np.int64)
    if arrays.world[at.HAS_FILTERS]:
        filters = [SubscriptionFilter(parameters) for _, parameters in plan.routers]
        arrays["allowed"] = np.array([[each.allows(topic) for topic in topics] for each in filters], dtype=np.uint8)
    strategies = [kind.strategy(parameters) for kind, parameters in plan.routers]
    arrays["natives"] = np.array([[_peering(ours, theirs) for theirs in strategies] for ours in strategies], np.uint8)
    arrays.world[at.ALL_NATIVE] = not arrays.world[at.HAS_LINKS] and bool(arrays["natives"].all())
    arrays.world[at.SEEN_EXPIRES] = min(parameters.seen_ttl_us for _, parameters in plan.routers) <= plan.end_us
    most = len(plan.publications)
    arrays.world[at.MAX_SEEN_BINDS] = bool((arrays["parameters"][:, at.MAX_SEEN] < most).any())
    arrays.world[at.MAX_CACHED_BINDS] = any(
        isinstance(parameters, GossipsubParameters)
        and (parameters.max_cached_messages < most or parameters.max_cached_bytes > 0)
        for _, parameters in plan.routers
    )
    _set_sure_duplicates(arrays, plan)


def _set_sure_duplicates(arrays: Arrays, plan: Plan) -> None:
    """Set SEEN_FOR, CHANGES_NOTHING and DEFERS. They decide for which copies the engine records the reception already
    when it sends them (`transport.py`)."""
    w = arrays.world
    table = arrays["parameters"]
    later = w[at.USES_11] or w[at.USES_12] or w[at.HAS_EPISUB] or w[at.HAS_FEATURES]
    if not (w[at.HAS_LINKS] or w[at.SERVICE] or w[at.MAX_SEEN_BINDS] or later):
        times = table[:, at.SEEN_TTL]
        windows = (table[:, at.SEEN_WINDOWS] - 1) * table[:, at.INTERVAL]
        forgets = table[:, at.SEEN_WINDOWS] > 0
        w[at.SEEN_FOR] = min(times[times > 0].min(initial=_FOREVER), windows[forgets].min(initial=_FOREVER))
    stays = all(timed.join for timed in plan.timed)
    listens = (table[:, at.MAX_CONTROL] > 0) & (table[:, at.MAX_IHAVE] > GOSSIP_SPAN)
    listens &= table[:, at.ROUTER_KIND] == at.GOSSIPSUB
    w[at.CHANGES_NOTHING] = queue.INLINE | (queue.GOSSIP if stays and listens.all() else 0)
    w[at.DEFERS] = bool(w[at.LOOKAHEAD] and w[at.SEEN_FOR])


def _peering(ours: Strategy, theirs: Strategy) -> int:
    """Return how a router treats a peer (FLOODED, MESHED, …). This depends on the protocol that the two negotiate."""
    protocol = negotiate(ours.protocols, theirs.protocols) or FLOODSUB
    if protocol not in ours.native_protocols:
        return at.FLOODED
    if knows_extensions(protocol):
        return at.TAKES_FEATURES
    if knows_idontwant(protocol):
        return at.TAKES_IDONTWANT
    return at.TAKES_BACKOFFS if knows_backoff(protocol) else at.MESHED


_LEAST_COLUMNS = 64
_SPARSE = 4
"""A divisor: nodes get few messages if, on average, fewer than a quarter of all messages are in the topics of a
node."""
_DIALS_OF_A_FAULT = 60
"""An assumption: after one fault, a node gets fewer new neighbours than this number plus four times
`faults.redial`."""
_MOST_WORDS = 4
"""The maximum number of words of `unwanted` for a node and a message. For neighbours that have no bit in these words,
UNWANTED_QUEUE is searched."""
_CELLS_AT_FIRST = 1 << 26
"""The number of cells (node and column) at the start of a run, approximately; more are created when they are
needed."""
_SLOTS_OF_AN_OVERLAY = 20
"""The number of slots at the start for a node whose episub router chooses its neighbours. If the node gets more
neighbours, its slots move."""
_LISTS_OF_A_TREE = 3
"""The maximum number of lists in `scratch` that have the same message: a timer of episub announces a message at most
twice, and requests it once."""


def set_nodes(arrays: Arrays, plan: Plan, place_of: dict[int, int]) -> None:
    w = arrays.world
    nodes, topics = int(w[at.NODES]), int(w[at.TOPICS])
    arrays.make("nodes32", nodes)
    header = arrays["nodes32"]
    header[:, [at.ANSWERS, at.NEWS, at.BACKOFFS, at.BACKLOG, at.BACKLOG_END]] = -1
    header[:, [at.AGES_AT, at.GOSSIPS_FROM]] = at.NEVER
    header[:, at.ROUTER] = np.frombuffer(plan.router_of, np.uint16)
    header[:, at.UP] = 1
    header[list(plan.initially_down), at.UP] = 0
    arrays.make("nodes64 bytes_out", nodes)
    if w[at.USES_11] or w[at.USES_12] or w[at.HAS_DIALS]:
        arrays.make("more32", nodes, value=-1)
        arrays["more32"][:, [at.DIALLING, at.NAMED_DIALLED]] = 0
        arrays.make("more64", nodes)
        arrays["more64"][:, at.UPLINK_AT] = -1
    if w[at.HAS_EPISUB]:
        arrays.make("alarms", nodes, value=-1)
        arrays.make("trees", nodes, topics)
    if w[at.HAS_OVERLAY]:
        _set_overlays(arrays, nodes, topics)
    if w[at.HAS_GATER]:
        arrays.make("gaters", nodes)
    if w[at.HAS_GATER] or w[at.HAS_PLACES]:
        _set_addresses(arrays, plan)
    arrays.make("members fanout_us", nodes, topics)
    for topic, subscribed in enumerate(plan.members):
        lines = slice(None) if isinstance(subscribed, range) else list(subscribed)
        arrays["members"][lines, place_of[topic]] = at.APPLICATION
    if w[at.TRACKS_SINCE]:
        arrays.make("since_us", nodes, topics, value=-1)
    _set_clusters(arrays)
    columns = 1
    enough = int(w[at.MESSAGES]) if w[at.CLUSTERS] else max(_LEAST_COLUMNS, _CELLS_AT_FIRST // nodes)
    while columns < min(int(w[at.MESSAGES]), enough):
        columns *= 2
    w[at.COLUMNS] = columns
    waits = w[at.SERVICE] or (w[at.USES_12] and w[at.UPLINK])  # waiting events name messages, so columns must stay
    given = arrays["parameters"]
    most = given[given[:, at.SCORES] != 0, at.MAX_DELIVERIES]
    w[at.MAX_DELIVERIES_BINDS] = most.min(initial=w[at.MESSAGES]) < w[at.MESSAGES]
    w[at.RECYCLES] = not (waits or w[at.CLUSTERS] or w[at.MAX_DELIVERIES_BINDS] or w[at.PART_WORDS])
    arrays.make("seen cached", -(-nodes * columns // 64))
    arrays.make("revived", columns, value=1)
    of_messages = {
        at.NODES: "cells",
        at.SEEN_EXPIRES: "first_us",
        at.MAX_SEEN_BINDS: "seen_serials",
        at.MAX_CACHED_BINDS: "cache_serials",
        at.HAS_SCORES: "records",
        at.HAS_EPISUB: "kept32 kept64",
        at.MAX_DELIVERIES_BINDS: "record_serials",
    }
    for scalar, names in of_messages.items():
        if w[scalar]:
            arrays.make(names, nodes, max(1, min(columns, int(w[at.MESSAGES]))), sparse=bool(w[at.CLUSTERS]))


def _set_overlays(arrays: Arrays, nodes: int, topics: int) -> None:
    """Create the arrays for the overlays of episub."""
    table = arrays["parameters"]
    table = table[(table[:, at.ROUTER_KIND] == at.EPISUB) & (table[:, at.OVERLAY] != at.FIXED_OVERLAY)]
    most_active = int(table[:, at.ACTIVE_LIMIT].max())
    estimated = table[:, at.IS_ESTIMATED] * table[:, at.PASSIVE_FACTOR] * table[:, at.ACTIVE_LIMIT]
    most_passive = int(np.maximum(table[:, at.PASSIVE_SIZE], estimated).max())
    arrays.world[at.MOST_ACTIVE] = most_active
    arrays.make("meetings", nodes, value=-1)
    arrays.make("overlays", nodes, topics, value=-1)
    arrays["overlays"][:, :, [at.ACTIVE_COUNT, at.PASSIVE_COUNT]] = 0
    arrays.make("view_peers view_notes", nodes, topics, most_active + most_passive + 1)
    arrays.make("errands", lines_at_most(64 * nodes, 64))
    arrays.make("frames", int(arrays.world[at.THREADS]), lines_at_most(1 << 16, 16))


def _set_addresses(arrays: Arrays, plan: Plan) -> None:
    """Set `addresses`: number the addresses of nodes. A node without a known address gets a number that no other node
    has."""
    numbers: dict[str | int, int] = {}
    known = addresses(plan.scenario.addresses, plan.scenario.network.nodes)
    arrays["addresses"] = np.array(
        [numbers.setdefault(address or node, len(numbers)) for node, address in enumerate(known)], dtype=np.int32
    )
    arrays.world[at.SHARES_ADDRESSES] = len(numbers) < len(known)


def _set_clusters(arrays: Arrays) -> None:
    """Set CLUSTERS if USES_11 is set and nodes get few messages (`_SPARSE`).

    With CLUSTERS each message has a column of its own, and the columns of a topic's messages are next to each other.
    So a node touches only the memory for messages of its topics.
    """
    w = arrays.world
    topics = arrays["messages"][: int(w[at.MESSAGES]), at.TOPIC]
    members = np.count_nonzero(arrays["members"], axis=0)
    w[at.CLUSTERS] = w[at.USES_11] and _SPARSE * int(members[topics].sum()) < int(w[at.NODES]) * len(topics)
    if w[at.CLUSTERS]:
        arrays["columns_of"] = np.argsort(np.argsort(topics, kind="stable"), kind="stable").astype(np.int32)


def set_score_inputs(arrays: Arrays, plan: Plan, randomness: Randomness) -> None:
    """Set the inputs of scores: ratings by applications (P5), and the numbers of addresses (P6). In a run without
    scores, do nothing."""
    w = arrays.world
    scenario = plan.scenario
    if not w[at.HAS_SCORES]:
        return
    nodes = int(w[at.NODES])
    if scenario.ratings:
        w[at.HAS_RATINGS] = 1
        arrays["ratings"] = np.array([float(entry.rating) for entry in scenario.ratings])
        arrays.make("rated", len(scenario.ratings), nodes)
        for number, entry in enumerate(scenario.ratings):
            some = chosen(entry, plan.router_of, randomness, Purpose.RATED, number)
            by = range(nodes) if entry.by is None else frozenset(entry.by)
            bits = [at.RATED * (node in some) | at.BY * (node in by) for node in range(nodes)]
            arrays["rated"][number] = bits
    known = addresses(scenario.addresses, nodes)
    if any(known):
        w[at.HAS_ADDRESSES] = 1
        arrays["address_names"] = _address_names(plan, known)


def _address_names(plan: Plan, texts: Sequence[str]) -> NDArray[np.int32]:
    numbers: dict[str, int] = {}
    table = np.full((len(plan.routers), len(texts), 2), -1, dtype=np.int32)
    for router, (_, parameters) in enumerate(plan.routers):
        score = parameters.score if isinstance(parameters, GossipsubParameters) else None
        if score is not None:
            known = SharedAddresses(score.peer.shared_address_allowed, score.peer.ipv6_addresses, 1)
            for node, text in enumerate(texts):
                for place, name in enumerate(known.names(text)):
                    table[router, node, place] = numbers.setdefault(name, len(numbers))
    return table


def set_neighbours(arrays: Arrays, plan: Plan, place_of: dict[int, int]) -> None:
    """Create the slot arrays with room for all first connections, the arrays of dials, direct peers and links, and
    the arrays in which kernels collect candidates and parts."""
    w = arrays.world
    nodes = int(w[at.NODES])
    starts, targets = plan.dials.starts, plan.dials.targets
    counts = np.diff(starts)
    arrays["dial_starts"] = starts
    arrays["dial_targets"] = targets if len(targets) else np.zeros(1, np.int32)
    refused = np.zeros(nodes, dtype=np.uint8)
    refused[list(plan.natted)] = 1
    arrays["natted"] = refused
    w[at.HAS_NATTED] = len(plan.natted) > 0
    if len(plan.natted):
        reached = refused[targets] == 0
        degrees = np.bincount(np.repeat(np.arange(nodes), counts)[reached], minlength=nodes)
        degrees += np.bincount(targets[reached], minlength=nodes)
    else:
        degrees = counts + np.bincount(targets, minlength=nodes)
    if w[at.HAS_OVERLAY]:
        kinds = arrays["parameters"][arrays["nodes32"][:, at.ROUTER]]
        dials_itself = (kinds[:, at.ROUTER_KIND] == at.EPISUB) & (kinds[:, at.OVERLAY] != at.FIXED_OVERLAY)
        degrees = np.where(dials_itself, _SLOTS_OF_AN_OVERLAY, degrees)
    pairs = _set_direct_peers(arrays, plan)
    degrees += np.bincount(pairs.ravel(), minlength=nodes)
    used = int(degrees.sum())
    header = arrays["nodes32"]
    header[1:, at.FIRST_SLOT] = np.cumsum(degrees[:-1])
    header[:, at.CAP] = degrees
    topics = int(w[at.TOPICS])
    grows = bool(plan.faults or plan.initially_down) or w[at.HAS_DIALS] != 0
    room = 4 * used + 64 if grows else used + 1
    w[at.SLOTS], w[at.SLOTS_USED] = room, used
    most = int(degrees.max(initial=1))
    sparse = bool(w[at.CLUSTERS])
    arrays.make("peers", room)
    arrays.make("flags", room, topics)
    if w[at.HAS_SCORES]:
        arrays.make("peer_scores", room)
        arrays.make("topic_scores mesh_times", room, _set_own_places(arrays, plan, place_of))
        dials_of_a_fault = _DIALS_OF_A_FAULT + 4 * int(w[at.REDIAL]) if grows else 0
        words = -(-(most + dials_of_a_fault) // 64)
        w[at.RETAINS] = grows
        w[at.WIDEN_FROM] = 64 * words - dials_of_a_fault
        if grows:
            arrays.make("retained", room)
        arrays.make("senders", *arrays["cells"].shape, words, sparse=sparse)
    if w[at.HAS_EPISUB]:
        arrays.make("tree_marks", room, topics)
    if w[at.HAS_OVERLAY]:
        arrays.make("slot_times", room)
        arrays.make("detours", room, topics)
    if w[at.HAS_GATER]:
        arrays.make("gated", room)
    if w[at.USES_12]:
        arrays.make("idontwants", room)
        arrays.make("unwanted", *arrays["cells"].shape, min(_MOST_WORDS, -(-most // 64)), sparse=sparse)
    if w[at.HAS_LINKS]:
        w[at.LINKS] = 2 * int(starts[-1]) + 2 * len(pairs) + 64
        if w[at.HAS_OVERLAY]:
            w[at.LINKS] += _SLOTS_OF_AN_OVERLAY * nodes
        arrays.make("links_of", room, value=-1)
        arrays.make("links32 links64 link_marks", int(w[at.LINKS]))
    if grows:
        most = max(most * 2, nodes if nodes <= 100_000 or w[at.HAS_DIALS] else 4 * most + 1000)
    threads = int(w[at.THREADS])
    arrays.make("candidates ranks keys", threads, most + 1)
    messages = int(w[at.MESSAGES])
    table = arrays["parameters"]
    cramped = (table[:, at.ROUTER_KIND] == at.GOSSIPSUB) & (table[:, at.MAX_IHAVE] < messages)
    samples = int(table[cramped, at.LAZY].max(initial=0))  # the most peers that get an IHAVE with a sample of ids
    most_marks = max(most, messages if samples or w[at.USES_11] or w[at.HAS_EPISUB] else 0)
    arrays.make("marks", threads, most_marks + 1)
    if w[at.HAS_DIALS]:
        arrays.make("name_marks", threads, most + 1)
    lists = max(1 + min(samples, most), _LISTS_OF_A_TREE if w[at.HAS_EPISUB] else 0)
    words = max(1024, messages * lists + 64)
    if w[at.HAS_OVERLAY]:
        words += lines_at_most(1 << 20, 8)
    arrays.make("scratch", threads, words)


def _set_direct_peers(arrays: Arrays, plan: Plan) -> NDArray[np.int32]:
    """Set the direct peers of each node whose router uses 1.1; return all pairs of direct peers."""
    pairs = np.array(direct_pairs(plan.scenario), dtype=np.int32).reshape(-1, 2)
    if not len(pairs):
        return pairs
    w = arrays.world
    w[at.HAS_DIRECT] = 1
    both = np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0)
    knows = arrays["parameters"][arrays["nodes32"][both[:, 0], at.ROUTER], at.HAS_11] != 0
    counts = np.bincount(both[knows, 0], minlength=int(w[at.NODES]))
    arrays["direct_pairs"] = pairs
    arrays["direct_starts"] = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    arrays["direct_targets"] = np.ascontiguousarray(both[knows, 1])
    return pairs


def _set_own_places(arrays: Arrays, plan: Plan, place_of: dict[int, int]) -> int:
    """Return the number of topics for which each slot needs score counters.

    If every node ever joins at most half of all topics, number the topics of each node in `own_places`, and return
    the maximum number of topics of a node. Otherwise return the number of all topics.
    """
    w = arrays.world
    joins = arrays["members"] != 0
    for timed in plan.timed:
        joins[timed.node, place_of[timed.topic]] = True
    most = int(joins.sum(axis=1).max(initial=1))
    if 2 * most > int(w[at.TOPICS]):
        return int(w[at.TOPICS])
    w[at.HAS_OWN_PLACES] = 1
    arrays["own_places"] = np.where(joins, np.cumsum(joins, axis=1, dtype=np.int32) - 1, 0).astype(np.int32)
    return most
