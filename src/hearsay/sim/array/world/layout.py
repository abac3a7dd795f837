"""The world of a run: one array of integers that all kernels get, and views of the arrays that it points to.

`w` holds scalars first (`NODES`, `WIDTH_BITS`, …), then the address and the extents of each array. A kernel gets `w`
and reads the elements that it needs, such as `cells(w)[node, column]`. Passing all arrays as arguments would take
longer than most kernels run. In addition, Python can replace an array by a larger one between two calls of an entry
(a kernel that Python calls).

The present call is the event that a node's router handles at the moment. These names mean the same in all kernels:

| name | what |
|---|---|
| th | the number of the thread that runs the kernel; a thread has a line of its own in some arrays |
| now | the time of the event, in microseconds since the run began |
| node, peer, sender | the number of a node |
| slot | the index of a node's neighbour in `peers` and other arrays, see `slots.py` |
| topic | the index of a topic in the order of names |
| message | the number of a message, in the order of publication |
| column, at | the index of a message in `cells` and other arrays, see `knowledge.py` |
| place | an index in an array |
| payload, w0, w1 | an event's payload and its two words, see `queue.py` |
| rpc | the index of an RPC in `arena`, see `payload.py` |

| array | shape | what |
|---|---|---|
| parameters | router, field | the routers' parameters as integers |
| bases | purpose | the hash of seed and purpose; every draw for the purpose extends it |
| topics, topic_keys | topic | number in the trace, bytes of the name, bytes in memory; hash of the name |
| allowed | router, topic | whether `allowed_topics` of a router allows a topic; only with HAS_FILTERS |
| messages | message, field | the topic, publisher, time and sizes of every message of the plan |
| inject_targets | place | the nodes to which the script sends messages, one message after the other |
| verdicts | message, field | the applications' verdict on a message, and its eligible nodes; only with HAS_VERDICTS |
| accepting | line, node | whether the node accepts messages that others refuse; only with HAS_VERDICTS |
| nodes32, nodes64 | node, field | the header of a node |
| bytes_out | node | the encoded bytes that the node sent |
| members, since_us, fanout_us | node, topic | membership; time of the join; time of the last publish to the fan-out |
| peers, flags, links_of | slot (, topic) | the neighbour; bits such as IN_MESH; the newest link to the neighbour |
| links32, links64 | link, field | one direction of a connection; only with HAS_LINKS |
| seen, cached | word | a bit for each node and column |
| cells, first_us | node, column | what a node knows of a message; the time at which the node first saw it |
| seen_serials, cache_serials | node, column | the order of entries; only with MAX_SEEN_BINDS, MAX_CACHED_BINDS |
| revived | column | whether a node saw the column's message again after all nodes had forgotten it |
| queued, queued_links, chunk_next | event; chunk | the queue of events, see `queue.py` |
| near, far | thread, event, field | new events of the open part, and events beyond the ring of buckets |
| sorted_events, sorted_links | line, event | events of the open part: line 0 by block, line 1 by node |
| block_starts, node_counts | …, block; thread, node | the ends of blocks and of nodes in `sorted_events` |
| heads, tails, fills | thread, chain | the first and last chunk of a chain, and the number of events in the last |
| arena, pending | word; thread, chunk | RPCs that do not fit into an event, see `payload.py` |
| pool | thread, entry, field | entries of short lists, see `lists.py` |
| outbox | thread, entry, field | the parts that the present call sends, see `outbox.py` |
| scratch | thread, place | ids and other content of parts that the present call sends |
| candidates | thread, place | slots (in episub also numbers of peers) from which a kernel chooses some |
| ranks, keys, marks | thread, place | for each candidate: a score, a random number, whether it is chosen |
| control | thread, field | counters and flags of a thread and of its present call |
| leaving | thread, place, field | copies that wait until memory is prefetched, see `transport.py` |
| rows, sums, counts | thread, … | the results of the run, see `record.py` |
| latency_counts | thread, microseconds | the number of deliveries by latency, for latencies below MEASURED |
| latencies_seen, long_latencies | thread, place | latencies that are not counted yet, and those from MEASURED on |
| witnesses | node | whether the calls of the node are noted, see `rules/checks.py` |
| reals, topic_reals, topic_times | router (, topic), field | parameters of scores, and other real numbers |
| more32, more64 | node, field | the rest of the header; only with USES_11, USES_12 or HAS_DIALS |
| peer_scores, topic_scores, mesh_times | slot (, place), field | score counters of a neighbour; only with scores |
| own_places | node, topic | the index of a topic among the topics that the node ever joins; only with scores |
| columns_of | message | the column of the message; only with CLUSTERS |
| records, senders | node, column, field | delivery record; bits of neighbours that sent a copy; only with scores |
| record_serials | node, column | the order in which records began; only with MAX_DELIVERIES_BINDS |
| retained | slot | the time until which a disconnected neighbour's score is stored; only with RETAINS |
| ratings, rated | entry (, node) | ratings (P5); bits RATED and BY of each node; only with HAS_RATINGS |
| address_names | router, node, place | the numbers of addresses under which P6 counts the node, -1 for none |
| gated | slot, field | the gater's counts for the peer's address; only with a gater |
| gaters | node, field | the gater's counts for a node; only with a gater |
| addresses | node | the number of the node's address, unique if it has none; with HAS_GATER or HAS_PLACES |
| idontwants | slot, field | counts of a neighbour's RPCs with IDONTWANT, and of their ids; only with 1.2 |
| unwanted | node, column, word | a bit for each neighbour that does not want the message; only with 1.2 |
| urgent | thread, entry, field | IDONTWANTs that the present call sends |
| names, name_marks | thread, place | peers that the PRUNEs of the present call name; only with HAS_DIALS |
| known_topics, apart | slot, topic | data of the check about a peer, see `checks.py`; only with WITNESSES |
| tallies | thread, field | parts received and lost, and the number of findings; only with WITNESSES |
| slot_marks | slot | whether a GRAFT or PRUNE is in flight, see `mutual.py`; only with WITNESSES |
| findings | thread, place, field | broken invariants; only with WITNESSES |
| dial_starts, dial_targets, dial_buckets | node; place | the first dials of each node, see `run/links.py` |
| natted | node | whether the node accepts no inbound connection |
| latencies, region_jitters | … | tables of latencies, see `slots.py`; the additional jitter between two regions |
| link_marks | link | a mark during a search for unused links, see `run/reuse.py` |
| sides, cut_ranges, cut_pairs, lost_links | … | faults, see `run/faults.py` |
| direct_pairs | pair, 0 or 1 | direct peers that connect at the start; only with HAS_DIRECT |
| direct_starts, direct_targets | node; place | the direct peers of each node, ascending; only with HAS_DIRECT |
| dials, arrivals | (thread,) entry, field | dials of routers, see `dials.py` |
| alarms | node, field | the timer of an episub router, and the alarms that it serves; only with HAS_EPISUB |
| trees | node, topic, field | the broadcast tree of a topic; only with HAS_EPISUB |
| kept32, kept64 | node, column, field | messages that a tree can send again; only with HAS_EPISUB |
| detours | slot, topic, field | the neighbour that this slot's peer could replace in a tree; only with HAS_OVERLAY |
| meetings | node, field | lists of errands and dials, see `meetings.py`; only with HAS_OVERLAY |
| overlays | node, topic, field | the state of an overlay of episub; only with HAS_OVERLAY |
| view_peers, view_notes | node, topic, place | the active list, then from MOST_ACTIVE on the passive one |
| slot_times | slot, field | the ends of an unused connection and of the wait for a pong; only with HAS_OVERLAY |
| errands | place, field | tasks for the time when a peer is connected, see `meetings.py`; only with HAS_OVERLAY |
| frames | thread, place, field | a stack of link requests to send, see `growth.py`; only with HAS_OVERLAY |
| tree_marks | slot, topic | NEWLY_EAGER and NEWLY_UP; only with HAS_EPISUB |
| traits | slot, 1 + topic | extensions of a neighbour, then its use of partial messages; only with HAS_FEATURES |
| part_topics, part_heads | (node,) topic, field | partial messages; these and the next four only with PART_WORDS |
| group_of | node, column | the line of a message's group, 0 for none |
| part_lines, part_sets | line, field; line, word | groups and their peers, see `part_lines.py` |
| handed | thread, entry | messages that the present call delivered, for applications of partial messages |
| alone | thread, entry, field | slot and index of RPCs that are sent after all others; only with HAS_FEATURES |
| natives | router, router | how a router treats peers that run another one: FLOODED, MESHED, … |
| schedule, planned | line, field | events of the whole network, and those of single nodes, by time |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count, islice
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.numpy_support import from_dtype
from numpy.typing import NDArray

from hearsay.sim.array.compiling import zeros
from hearsay.sim.array.views import ViewType, WorldType, make_view, read, word
from hearsay.sim.plan.engines import WITH_KERNELS

_cgutils: Any = cgutils
World = NDArray[np.int64]
Word: TypeAlias = np.uint64
"""The type of draws, hashes and cells."""


_scalar = count()
(
    NOW, BUCKET, PART_END, STATUS, FIRST_MESSAGE, NEWEST, CLOSED_UP_TO, GLOBALS_DONE, PLANNED_DONE, PART_EVENTS,
    SLOTS_USED, LINKS_USED, DEAD_UP_TO, DEAD_SURE, LOOKED, DIALS_UP_TO, BUCKET_IS_SPLIT, PART_BLOCKS,
    LINKS_FREE, LINKS_SPARE, LINKS_WANTED, NETWORK_STARTS, MOST_SLOTS, ARRIVALS, DIALS_MADE,
    LINES_FREE, LINES_USED, HELD_END,
) = islice(_scalar, 28)  # fmt: skip
"""Scalars that change while kernels run. Times are in microseconds. BUCKET: the number of the open bucket. A bucket
is handled in parts (`loop.py`); the open part ends at PART_END, and new events before HELD_END go into `near`.
STATUS: the reason why an entry returned. FIRST_MESSAGE: the first message that has a column; all nodes have forgotten
older messages. NEWEST: the number of messages that have been given a column. CLOSED_UP_TO: the number of messages
whose window is over. GLOBALS_DONE, PLANNED_DONE: the numbers of handled lines of `schedule` and `planned`.
PART_EVENTS, PART_BLOCKS: the numbers of events and of blocks of nodes in the open part. LINKS_FREE: the first of
LINKS_SPARE links that may be used again; see `reuse.py`, also for DEAD_UP_TO, DEAD_SURE and LOOKED. LINKS_WANTED: the
number of links that are needed if STATUS is NEEDS_LINKS. NETWORK_STARTS: 1 while the open part makes the first
connections. MOST_SLOTS: the largest number of slots that a node has had after an insertion, 0 without insertions.
For DIALS_UP_TO see `links.py`, for BUCKET_IS_SPLIT `queue.py`, for ARRIVALS and DIALS_MADE `dials.py`, for LINES_FREE
and LINES_USED `part_lines.py`."""
NODES, TOPICS, MESSAGES, COLUMNS, SLOTS, LINKS, END, WIDTH_BITS, BUCKETS, BLOCK_BITS, BLOCKS = islice(_scalar, 11)
"""A bucket is 2 ** WIDTH_BITS microseconds wide. COLUMNS is a power of two."""
WorldType.changing = NODES
HAS_LINKS, HAS_LOSS, LOSS, LOSS_CONTROL, HAS_JITTER, JITTER, UPLINK, UPLINK_BYTES = islice(_scalar, 8)
"""HAS_LINKS: links need memory of their own (`slots.py`). LOSS: millionths. JITTER: microseconds. UPLINK: bits per
second, 0 without a limit. UPLINK_BYTES: the room of an uplink's queue, 0 without a limit."""
LATENCY_KIND, LATENCY_LEAST, LATENCY_SPAN, REGION_COUNT = islice(_scalar, 4)
"""LATENCY_LEAST, LATENCY_SPAN: the bounds of uniform latencies (`UniformLatency.bounds`)."""
SERVICE, VALIDATION, HAS_VERDICTS, DETECTION, REDIAL, LINGER = islice(_scalar, 6)
SEEN_EXPIRES, TRACING, THREADS, GLOBALS, SCRIPT, TRACKS_SINCE, MEASURED = islice(_scalar, 7)
MAX_SEEN_BINDS, MAX_CACHED_BINDS, LOOKAHEAD = islice(_scalar, 3)
"""SEEN_EXPIRES: some router forgets seen messages before the run ends. TRACING: the rows that are stored
(`record.py`). GLOBALS: the number of lines of `schedule`. TRACKS_SINCE: `since_us` is used. MEASURED:
`latency_counts` counts latencies below this number of microseconds. MAX_…_BINDS: some router may have to forget
messages early, because the cache is full. LOOKAHEAD: 1 if no node depends on events of other nodes in the same
bucket, so that each node can handle all its events of the bucket at once."""
RECYCLES, ROUTERS, ALL_NATIVE, HAS_NATTED = islice(_scalar, 4)
SEEN_FOR, CHANGES_NOTHING, DEFERS, QUIET_UNTIL = islice(_scalar, 4)
WITNESSES, USES_11, HAS_SCORES, SAMPLES_SCORES, USES_12, RETAINS, WIDEN_FROM = islice(_scalar, 7)
HAS_RATINGS, HAS_ADDRESSES, HAS_OWN_PLACES, CLUSTERS, HAS_DIALS, HAS_DIRECT = islice(_scalar, 6)
HAS_GATER, SHARES_ADDRESSES, MAX_DELIVERIES_BINDS, HAS_FILTERS, HAS_EPISUB = islice(_scalar, 5)
HAS_OVERLAY, MOST_ACTIVE, RENDEZVOUS, HAS_PLACES, HAS_FEATURES, PART_WORDS = islice(_scalar, 6)
"""RECYCLES: columns of forgotten messages are used again. ALL_NATIVE: every peer is native to every router, and links
need no memory. HAS_NATTED: some nodes accept no inbound connection. SEEN_FOR: the minimum time for which a node
remembers a message; 0 if sure duplicates are queued like other copies (`transport.py`). CHANGES_NOTHING: bits of
payloads; an RPC with such a payload has no effect at a node that has seen its messages. DEFERS: RPCs wait in
`leaving` (`transport.py`). QUIET_UNTIL: before this time nothing happens except first connections; 0 if other events
may happen. WITNESSES: the run is checked, and the calls of some nodes are noted. USES_11: some router uses 1.1 or has
`ask_again_heartbeats`, or routers dial. HAS_SCORES: some router has scores. USES_12: some router uses IDONTWANT, or
skips senders. RETAINS: the scores of neighbours may be stored after they disconnect. WIDEN_FROM: if a node uses more
slots than this, `senders` gets more words. HAS_OWN_PLACES: each node joins few of the topics. CLUSTERS: columns of a
topic's messages are next to each other. HAS_DIALS: routers dial; then links need memory, and PRUNEs name peers.
HAS_DIRECT: nodes have direct peers. SHARES_ADDRESSES: some nodes have the same address. HAS_OVERLAY: some episub
router chooses its neighbours. MOST_ACTIVE: the maximum number of neighbours in an active list of such a router.
HAS_PLACES: some router has `places_per_address`. HAS_FEATURES: some router has extensions of 1.3. PART_WORDS: the
number of words in a set of parts, 0 if no topic has partial messages."""
SCALARS = 104

# Values of STATUS: the reason why an entry returned to Python.
(
    OK, QUEUE_FULL, POOL_FULL, ARENA_FULL, ROWS_WAIT, OUTBOX_FULL, NEEDS_COLUMNS, NEEDS_SLOTS, NEEDS_LINKS, FINISHED,
    ROWS_FULL, PARTS_FULL,
) = range(12)  # fmt: skip
LIMIT_WORDS = {
    QUEUE_FULL: "more events at once",
    POOL_FULL: "more entries of short lists, or more errands",
    ARENA_FULL: "more RPCs under way",
    OUTBOX_FULL: "more parts of one node at once",
    ROWS_FULL: "more rows of the trace, long latencies or new neighbours at once",
    PARTS_FULL: "more groups of messages in parts, or more peers in groups",
}

# Router parameters.
PARAMETERS = 157
(
    ROUTER_KIND, HELLO, COALESCE, VALIDATE, SEEN_TTL, MAX_SEEN, MAX_SUBSCRIPTIONS, MAX_MESSAGES, MAX_CONTROL,
    MAX_PENDING, DEGREE, DEGREE_LOW, PRUNE_FROM, UNKNOWN_GRAFT_PRUNES, INTERVAL, FIRST_BEAT, BEAT_SPREAD, BACKOFF,
    UNSUBSCRIBE_BACKOFF, MAX_BACKOFF, BACKOFF_SLACK, MAX_BACKOFFS, REACH, LAZY, FILTER_FIRST, HISTORY, GOSSIP_WINDOWS,
    SEEN_WINDOWS, FANOUT_TTL, FANOUT_AT_PUBLISH, TOP_UP_MESH, GRAFT_ON_MISSING, MISSING_WINDOW, MAX_IHAVE, MAX_IWANT,
    ANSWERS_LIMIT, MAX_CACHED, ANNOUNCE_AGAIN, REFUSE_FROM, EXCHANGE, HAS_11, MAX_ASKED, ASK_AGAIN, DEGREE_SCORE,
    DEGREE_OUT, WHEN_FULL, REPAIR_TO, OPPORTUNITY_TICKS, OPPORTUNITY_PEERS, OPPORTUNITY_CHOICE, MEDIAN, GRAFTS_BEST,
    GRAFT_ON_SUBSCRIBE, TAKES_UNWELCOME, GRAFT_FLOOD, EARLY_GRAFT, FLOOD_PUBLISH, FLOOD_RATE, MAX_IHAVE_RPCS,
    COUNTS_IHAVES, IHAVE_IDS_OF_RPC, MAX_IWANT_RPCS, FOLLOWUP, TRACKED, ASKED_MUST_SEND, UNSUBSCRIBED_GRAFT,
    MEMBER_IS_JUDGED, BACKOFF_ON_UNSUBSCRIBE, BACKOFF_NOT_JOINED, BACKOFF_LASTS, EXCHANGE_ALWAYS, MESH_FIRST,
    GRAYLISTED_SUBSCRIBE, SCORES, REFRESH, TIMES_ARE_NOW, WHOLE_QUANTA, DEFICIT_AFTER, SECOND_PRUNE, MEMBERS_BLAMED,
    RECORD_TTL, MAX_SENDERS, TELL_FROM, TELLS_OWN, HEEDS, UNWANTED_TICKS, MAX_UNWANTED_IDS, MAX_UNWANTED_RPCS,
    MAX_UNWANTED_OF_PEER, MAX_UNWANTED, SKIPS_SENDERS, MAX_CHANGES, WITHDRAWS, RETAIN,
    NOT_POSITIVE_ONLY, UNTIL_RETURN, DECAYS_AWAY, MAX_RETAINED, DIALS_PER_PRUNE, DIRECT_TICKS, DIRECT_GRAFT,
    GATES, GATER_EVERY, GATER_QUIET, GATER_RETAIN, GATER_RETAINED, MAX_CACHED_BYTES, MAX_SUBSCRIPTION_BYTES,
    MAX_BYTES_OF_PEER, MAX_DELIVERIES, FILTERS, TREE_FLOODS, GRAFTS_ALL, FLUSH, RECENT, MISSING_TICK, GRAFT_ATTEMPTS,
    THRESHOLD, PAYLOAD_TTL, MAX_MISSING, MAX_ANNOUNCERS, MAX_PART_IDS, OVERLAY, RANDOM_LINKS, NEAR_LINKS,
    PASSIVE_SIZE, IS_ESTIMATED, SIZE_CONSTANT, PASSIVE_FACTOR, ACTIVE_LIMIT, JOIN_TTL, PASSIVE_TTL, REPLY_TIMEOUT,
    STABILISE_MIN, STABILISE_MAX, ALPHA, SHUFFLE_INTERVAL, SHUFFLE_TTL, SHUFFLE_ACTIVE, SHUFFLE_PASSIVE,
    PROBE_INTERVAL, PROBE_COUNT,
    CONTACTS_INTERVAL, SAYS_LEAVE, LEAVE_TTL, IDLE_FOR, MAX_PART_PEERS, MOST_DIALS, PLACES, SPEAKS_13, OWN_FEATURES,
    LATE_PENALISES, TELLS_ALL, GROUP_BEATS, MAX_PEER_GROUPS, MAX_GROUPS_OF_PEER, MAX_METADATA,
) = range(PARAMETERS)  # fmt: skip
"""Fields of `parameters`; `router_parameters.toml` has the parameter of each. HAS_11: the router uses gossipsub 1.1.
SCORES: the router has scores; the fields from SCORES to MAX_SENDERS are about scores. TELL_FROM: the minimum size of
a message for which the mesh gets IDONTWANT. MAX_CHANGES: the maximum number of subscriptions in an RPC. The fields
from TREE_FLOODS to MOST_DIALS are those of episub; GRAFTS_ALL: after the loss of an eager link, lazy links become
eager (`tree.neighbour_down`). OWN_FEATURES: the bits EXCHANGES_PARTS and TESTS."""
(
    GOSSIP_FACTOR, EARLY_PENALTY, GOSSIP_FROM, PUBLISH_FROM, GRAYLIST_BELOW, OPPORTUNITY_BELOW, TOPIC_CAP,
    MISBEHAVIOUR_WEIGHT, MISBEHAVIOUR_THRESHOLD, MISBEHAVIOUR_DECAY, SLOW_WEIGHT, SLOW_THRESHOLD, SLOW_DECAY, ZERO,
    APPLICATION_WEIGHT, ADDRESS_WEIGHT, ADDRESS_THRESHOLD, ACCEPT_EXCHANGE_FROM, GATER_THRESHOLD, NODE_DECAY,
    SOURCE_DECAY, GATER_ZERO, DUPLICATE_WEIGHT, IGNORED_WEIGHT, REJECTED_WEIGHT,
) = range(25)  # fmt: skip
REALS = 25
"""Fields of `reals`. Those that end in FROM or BELOW are thresholds of scores."""
(
    TOPIC_WEIGHT, TIME_WEIGHT, TIME_CAP, FIRST_WEIGHT, FIRST_DECAY, FIRST_CAP, MESH_WEIGHT, MESH_DECAY, MESH_CAP,
    MESH_THRESHOLD, FAILURE_WEIGHT, FAILURE_DECAY, INVALID_WEIGHT, INVALID_DECAY, GATER_WEIGHT,
) = range(15)  # fmt: skip
TOPIC_REALS = 15
IS_SCORED, QUANTUM, WINDOW, ACTIVATION = range(4)
"""Fields of `topic_times`."""
FLOODSUB, RANDOMSUB, EPISUB, MESHSUB, GOSSIPSUB = range(len(WITH_KERNELS))
"""Values of ROUTER_KIND, in the order of WITH_KERNELS."""
FLOODED, MESHED, TAKES_BACKOFFS, TAKES_IDONTWANT, TAKES_FEATURES = range(5)
"""Values of `natives`: how a router treats a peer. FLOODED: it only floods messages to the peer, because their common
protocol is not a native protocol of the router. A peer with another value is native. MESHED: the router sends the
peer no additions. TAKES_BACKOFFS: it sends backoffs in PRUNEs. TAKES_IDONTWANT: also IDONTWANT. TAKES_FEATURES: also
extensions."""

# Topics and messages.
TOPIC_NUMBER, TOPIC_LENGTH, EMPTY_MESSAGE, SUBSCRIPTION = range(4)
"""Fields of `topics`. TOPIC_LENGTH: the bytes of the name. EMPTY_MESSAGE, SUBSCRIPTION: the bytes in memory of a
message without data, and of a subscription."""
TOPIC, PUBLISHER, PUBLISHED, DATA_BYTES, ALONE_BYTES, MESSAGE_PART_BYTES, MESSAGE_BYTES, INJECT_FROM = range(8)
"""Fields of `messages`. PUBLISHED: the time of publication. MESSAGE_BYTES: the bytes of the encoded message.
MESSAGE_PART_BYTES: its bytes as a part of an RPC. ALONE_BYTES: the bytes of an RPC with only this message, and of the
RPC's length prefix. INJECT_FROM: the index in `inject_targets` of the message's first target; its targets end where
those of the next message begin."""

REASON, ACCEPTING, REFUSED, DUE_OF, REACHED_OF = range(5)
"""Columns of `verdicts`. REASON: the reason for which nodes refuse the message, -1 if they accept it. ACCEPTING: the
message's line in `accepting`. REFUSED: whether a node refused the message. The other columns are used only if no node
refused it: DUE_OF has the number of eligible nodes. REACHED_OF and the columns after it, one for each thread, have
the number of eligible nodes that got the message."""

# Nodes.
(
    COUNT, CAP, FIRST_SLOT, STARTS, TICK, ROUTER, UP, ANSWERS, NEWS, BACKOFFS, OLDEST, AGES_AT, GOSSIPS_FROM,
    OWED, BACKLOG, BACKLOG_END,
) = range(16)  # fmt: skip
"""Fields of `nodes32`. COUNT of CAP slots from FIRST_SLOT on are in use. STARTS: the number of times that the node
was started. TICK: the number of heartbeats since the last start. OLDEST: the node has no message older than this one
in its message cache, nor in a seen cache that forgets by heartbeats. AGES_AT: no heartbeat before this one forgets
messages. GOSSIPS_FROM: the node sends no gossip about messages older than this one. OWED: the bits UNANNOUNCED and
UNSENT, each set if any slot of the node has it, and the bits WAITS_TO_ANNOUNCE and FEATURES_OWED. ROUTER: the index
of the node's router in `parameters`. UP: 1 while the node is up. ANSWERS, NEWS, BACKOFFS and BACKLOG are heads of
lists (`lists.py`); BACKLOG_END is the last entry of the list BACKLOG."""
WAITS_TO_ANNOUNCE, FEATURES_OWED = 1, 2
"""Bits of OWED. WAITS_TO_ANNOUNCE: a router without a heartbeat has set a timer to announce subscriptions again.
FEATURES_OWED: the extensions of the router could not be sent to some peer."""
MORE32 = 8
MORE64 = 4
PROMISES, ASKED_AT, SENDERS, UNWANTED_QUEUE, UNWANTED_LAST = range(16, 21)
"""Heads of lists in `more32`, numbered after the fields of `nodes32`. UNWANTED_LAST: the end of UNWANTED_QUEUE."""
DIALLING, NAMED_DIALLED = 5, 6
"""Fields of `more32`. DIALLING: the number of unanswered dials. NAMED_DIALLED: the number of peers that the node
dialled since the last heartbeat because a PRUNE named them."""
REFRESH_DUE, REFRESHED, UNWANTED_COUNT, UPLINK_AT = range(4)
"""Fields of `more64`. REFRESH_DUE, REFRESHED: the times of the next decay of scores and of the last one.
UNWANTED_COUNT: the number of entries in UNWANTED_QUEUE. UPLINK_AT: the index of the uplink in `arena`
(`uplink.py`)."""
NODE32 = 16
"""One cache line."""
DUE, UPLINK_FREE, SERIAL, PENDING = range(4)
"""Fields of `nodes64`. DUE: the time of the next heartbeat; it is used only if the node's timer may fire at other
times, or the event of the timer may wait for service. UPLINK_FREE: the time at which the uplink is free. SERIAL: the
last number that was given to an entry of a bounded cache. PENDING: the number of messages in validation."""
NODE64 = 4
NEVER = (1 << 31) - 1
"""The value of AGES_AT and GOSSIPS_FROM if there is no message to forget, or to send gossip about."""
APPLICATION, JOINED, FANOUT, COUNTED = 1, 2, 4, 8
"""Bits of `members`. APPLICATION: the application is a member. JOINED: the router has joined the topic. FANOUT: the
router has a fan-out for the topic. COUNTED: the topic contributes to scores, because the router has joined it at
least once."""
MESH_SIZE = 4
"""The number of the lowest bit of the mesh size in `members`."""

# A thread's line in `control` or `counts` fills whole cache lines, so that no two threads write to one cache line.
CONTROL = 40
(
    CHUNK_FREE, CHUNK_FRESH, CHUNK_END, NEAR, NEAR_SERIAL, FAR, FAR_FIRST, POOL_FREE, POOL_FRESH, OUT_COUNT,
    OUT_SHORT, OUT_KEY, OUT_VALUE, OUT_IDS, SCRATCH_USED, ARENA_AT, ARENA_LEFT, ARENA_FREE, ARENA_FRESH, ARENA_END,
    ARENA_CHUNK, ARENA_TAKEN, LEAVING_FIRST, LEAVING_NEXT, KEEPS_SCORES, WELCOMES, HIDES_PEERS, IDS_IN_RPC, URGENT,
    NAMES, DIALS, NAMED_HOPS, FRAMES, ERRAND_FREE, ERRAND_FRESH, ALONE, HANDED, REMINDS,
) = range(38)  # fmt: skip
"""Fields of `control`. …_FREE: the first entry that may be used again, -1 for none. …_FRESH: the first entry that was
never used. …_END: the end of the thread's range of entries. For `errands`, only the line of thread 0 is used. OUT_…:
see `outbox.py`. KEEPS_SCORES: a heartbeat runs, and computes each score once. Three fields are about the RPC that the
present call handles. WELCOMES: what the sender's score permits, 0 until the score is read. HIDES_PEERS: PRUNEs name
no peers. IDS_IN_RPC: the number of ids in the RPC's IHAVEs so far. NAMED_HOPS: the hops field of the message that the
present call handles, 0 for none. NEAR, FAR, URGENT, NAMES, DIALS, FRAMES, ALONE and HANDED: the number of used
entries of the array with this name; SCRATCH_USED: that of `scratch`. REMINDS: the present call is a heartbeat, after
which applications of partial messages request late parts from other peers."""
COUNTERS = 40
TALLIES = 80
FINDING = 6

# Slots.
SUBSCRIBED, IN_MESH, IN_FANOUT, UNANNOUNCED, UNSENT, CONNECTED, NATIVE, DIALLED = 1, 2, 4, 8, 16, 32, 64, 128
"""Bits of `flags`. UNANNOUNCED: a SUBSCRIBE or UNSUBSCRIBE could not be sent. UNSENT: a GRAFT or PRUNE could not be
sent. CONNECTED, NATIVE and DIALLED are set for the first topic only. NATIVE: the common protocol with the peer is a
native protocol of the node's router. DIALLED: the node dialled the peer. Before the peer is connected, NATIVE means
instead that the peer also dials the node."""
IS_EAGER, IS_LAZY = IN_MESH, IN_FANOUT
"""The meaning of IN_MESH and IN_FANOUT in a tree, where each neighbour has one of these bits."""
NEWLY_EAGER, NEWLY_UP = 1, 2
"""Bits of `tree_marks`: since the last IHAVE, the peer became eager, or became a neighbour."""
MISBEHAVIOUR, SLOWNESS, SCORE, KEPT = range(4)
"""Fields of `peer_scores`. MISBEHAVIOUR, SLOWNESS: counters. SCORE: the score, NaN until it is computed again. KEPT:
the score that a heartbeat uses."""
RATED, BY = 1, 2
"""Bits of `rated`. RATED: the entry rates the node. BY: the node's application gives the rating of this entry."""
FIRST, MESH, FAILURES, INVALID = range(4)
"""Fields of `topic_scores`."""
GRAFTED, TIME_IN_MESH, MESH_BITS = range(3)
"""Fields of `mesh_times`. GRAFTED: the time at which the peer entered the mesh. TIME_IN_MESH: the time that the peer
had been in the mesh at the last decay."""
ACTIVE, UNSUBSCRIBED = 1, 2
"""Bits of MESH_BITS. ACTIVE: the score counts missing mesh deliveries of the peer (P3). UNSUBSCRIBED: the peer left
the mesh by UNSUBSCRIBE."""
RECORD, DECIDED = range(2)
"""Fields of `records`. RECORD: the time at which the record ends, shifted left, and its state in the lowest
STATE_BITS; 0 without a record. DECIDED: the time at which the message was accepted."""
STATE_BITS = 3
BROUGHT, REPEATED, IGNORED, REJECTED, AWAY_UNTIL = range(5)
"""Fields of `gated`. BROUGHT, REPEATED, IGNORED, REJECTED: the numbers of messages from the address that were new,
duplicate, ignored and rejected. AWAY_UNTIL: the time until which the counts are stored after the last peer at the
address disconnected; 0 while a peer at the address is connected."""
VALIDATED, THROTTLED, THROTTLED_AT, GATER_DUE = range(4)
"""Fields of `gaters`: counters and times. Times are stored as doubles, which are exact to the microsecond for 285
years."""

# Links.
LINK_SOURCE, DESTINATION, TWIN, PREVIOUS, SEQUENCE, LINK_FLAGS = range(6)
LINK32 = 6
OPEN, CUT, DEAD, OUTBOUND = 1, 2, 4, 8
"""Bits of LINK_FLAGS. OPEN: the source's router regards the destination as connected. CUT: a fault cut the link, so
RPCs on it no longer arrive. DEAD: the link is lost, whether or not the source has noticed the loss. OUTBOUND: the
source dialled."""
LATENCY, LAST_ARRIVAL = range(2)
LINK64 = 2

# Cells: what a node knows of a message.
ASKED, DELIVERED, MISSED, HELD, MISSING, QUEUED = 1, 2, 4, 8, 16, 32
"""Bits of cells. ASKED: the application is validating the message. MISSED: the node was eligible, but got no delivery
before the message's window was over. HELD, MISSING and QUEUED are set by a tree of episub: it can send the message
again (HELD), it knows the message from announcements only (MISSING), or it has not announced it yet (QUEUED)."""
SEEN_BEAT, CACHE_BEAT, HOPS = 6, 26, 47
BEATS = (1 << 20) - 1
HOPS_CAP = (1 << 17) - 1
"""SEEN_BEAT, CACHE_BEAT and HOPS: the lowest bits of fields of a cell, with their masks BEATS and HOPS_CAP: the
heartbeats (TICK) in which the message was seen and cached, and the hops to the node."""

# Trees.
TIMER, ANNOUNCE, FLUSH_DUE, MISSING_DUE = range(4)
"""Fields of `alarms`. TIMER: the time for which the timer is set. The other fields are the times of the alarms that
the timer serves. All are -1 for none."""
(
    KEPT_FIRST, KEPT_LAST, KEPT_COUNT, KEPT_SIZE, QUEUE, QUEUE_COUNT, MISSING_FIRST, MISSING_LAST, MISSING_COUNT,
    LATEST_FROM,
) = range(10)  # fmt: skip
"""Fields of `trees`. A kept message is one that the tree stores to send it again. KEPT_FIRST, KEPT_LAST: the oldest
and the newest kept message, -1 for none. KEPT_SIZE: the bytes of all kept messages. QUEUE, MISSING_FIRST,
MISSING_LAST: the first and last entries of lists, -1 for none; MISSING_LAST is used only if MISSING_COUNT is not 0.
…_COUNT: numbers of messages. LATEST_FROM: the neighbour that sent the newest message, or -1."""
TREE_FIELDS = 10
AHEAD_OF, AHEAD_BY = range(2)
"""Fields of `detours`. AHEAD_OF is set if the slot's peer had a message after no more hops than the node: to the
number plus one of the neighbour that sent the message to the node. Otherwise it is 0. AHEAD_BY: the hops to the
slot's peer minus those to the node, 0 or less."""
FIXED_OVERLAY, SEEDS_OVERLAY, HYPARVIEW = range(3)
"""Values of OVERLAY."""
SWEEP_DUE, SEQUENCE_NUMBER, ERRANDS, UNDER_WAY, DIAL_COUNT, GOING, ASKED_DISCOVERY = range(7)
"""Fields of `meetings`. SWEEP_DUE: an alarm. SEQUENCE_NUMBER: the last sequence number. ERRANDS, UNDER_WAY: the heads
of the lists of errands and of dialled peers. DIAL_COUNT: the number of dialled peers. GOING: the peer whose
disconnection is being handled. ASKED_DISCOVERY: the number of requests to discovery."""
EXPIRE_DUE, STABILISE_DUE, SHUFFLE_DUE, PROBE_DUE, CONTACTS_DUE = range(5)
(
    ACTIVE_COUNT, PASSIVE_COUNT, LOOKING_UNTIL, JOINS_LEFT, ASKS_LEFT, LEAVES_COUNT, OPEN_SEQUENCE, OPEN_TTL,
    OPEN_UNTIL, AWAITS_LISTS, SIZE_RANDOM, SIZE_ACTIVE, SIZE_PASSIVE,
) = range(5, 18)  # fmt: skip
REQUESTS, JUDGING, ASKED_NODES, ATTEMPTS, TRIED, REPLIES, LEAVES, UNSAID_TO, SENT, SKETCH = range(18, 28)
OVERLAY_FIELDS = 28
"""Fields of `overlays`: alarms, -1 for none; numbers; and heads of lists in `pool`, -1 for an empty one.
LOOKING_UNTIL: the end of the wait for discovery. OPEN_…: sequence number, TTL and timeout of the node's own SHUFFLE
that waits for an answer; OPEN_SEQUENCE is -1 if none does. SIZE_RANDOM, SIZE_ACTIVE, SIZE_PASSIVE: the target sizes
C_rand, A and P. SENT: the passive peers that the node's last SHUFFLE named."""
IDLE_UNTIL, PING_UNTIL = range(2)
"""Fields of `slot_times`: the time at which an unused connection is closed, and the time after which a ping is
unanswered; 0 for never."""
KEPT_HOPS, KEPT_PARENT, KEPT_NEWER, KEPT_OLDER = range(4)
"""Fields of `kept32`. KEPT_HOPS: twice the hops that the router counts, plus one if the received copy named its hops.
KEPT_PARENT: the peer that sent the message, -1 for a message of the node. KEPT_NEWER, KEPT_OLDER: the message that
was kept after this one and the message that was kept before it, -1 for none. `kept64` has the time at which the
message was kept."""

# Extensions and partial messages.
HAS_SENT, EXCHANGES_PARTS, TESTS, UNSAID = 1, 2, 4, 8
"""Bits in the first column of `traits`. HAS_SENT: the peer has sent an RPC. EXCHANGES_PARTS, TESTS: the peer's
extensions. UNSAID: the node's own extensions could not be sent to the peer."""
USE, PARTS, KNOWN_PARTS, IS_EAGER_TOPIC, ASKS_ONE, PART_BYTES, NO_PARTS_BYTES, CLAIM_BYTES = range(8)
"""Fields of `part_topics`. USE: how nodes use partial messages (`core/rules/partial_rules.py`), 0 if the topic's
messages are sent whole. PARTS, KNOWN_PARTS: the number of parts, and of those that nodes know from elsewhere.
IS_EAGER_TOPIC and ASKS_ONE are flags. The last three are the encoded bytes of a part, of an empty set of parts, and
of a claim (the parts that a node holds and wants)."""
CHOSEN, FIRST_GROUP, SERIALS, FIRST_HELD, LAST_HELD, HELD_COUNT, FIRST_ASKED, ASKED_COUNT = range(8)
"""Fields of `part_heads`. CHOSEN: whether the node uses partial messages. The others are about lists of groups, see
`part_lines.py`; FIRST_… and LAST_… are lines, 0 for none."""

# Arrays.
_ARRAYS: dict[str, tuple[int, Any, tuple[int | None, ...]]] = {}
"""For each array by name: its index in the world, the type of its numbers and its extents. An extent is None if it
differs between runs. At the index the world has the address of the array, and after the address all its extents."""
_WORDS_OF_ARRAY = 4
SLOT_ARRAYS: dict[int, tuple[str, ...]] = {
    NODES: ("peers", "flags"),
    HAS_LINKS: ("links_of",),
    HAS_SCORES: ("peer_scores", "topic_scores", "mesh_times"),
    RETAINS: ("retained",),
    HAS_GATER: ("gated",),
    USES_12: ("idontwants",),
    HAS_EPISUB: ("tree_marks",),
    HAS_OVERLAY: ("slot_times", "detours"),
    HAS_FEATURES: ("traits",),
    WITNESSES: ("known_topics", "apart"),
}
"""The names of the arrays that have a line for each slot. The key is a scalar that is not 0 in runs with these
arrays."""


def _view(name: str, dtype: Any, *extents: int | None) -> Any:
    """Return a kernel that returns a view of the array `name` of a world, and register the array in `_ARRAYS`."""
    at = SCALARS + _WORDS_OF_ARRAY * len(_ARRAYS)
    _ARRAYS[name] = at, dtype, extents
    kind = ViewType(name, from_dtype(np.dtype(dtype)), extents)

    @intrinsic
    def view(_typing: Any, w: Any) -> Any:
        def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            address, *found = (read(builder, arguments[0], at + place) for place in range(1 + len(extents)))
            return make_view(context, builder, kind, address, found)

        return kind(w), code

    return view


def _views(names: str, dtype: Any, *extents: int | None) -> list[Any]:
    """Return what `_view` returns, for each of several arrays with the same type and extents. Blanks separate the
    names of the arrays."""
    return [_view(name, dtype, *extents) for name in names.split()]


# Several arrays in one line have the same type and extents.
parameters = _view("parameters", np.int64, None, PARAMETERS)
bases, topic_keys, seen, cached = _views("bases topic_keys seen cached", np.uint64, None)
topics, planned, alarms, schedule = _views("topics planned alarms schedule", np.int64, None, 4)
allowed, accepting, flags, natives, rated = _views("allowed accepting flags natives rated", np.uint8, None, None)
name_marks, known_topics, tree_marks = _views("name_marks known_topics tree_marks", np.uint8, None, None)
traits, marks, sides = _views("traits marks sides", np.uint8, None, None)
messages, part_topics, errands = _views("messages part_topics errands", np.int64, None, 8)
verdicts, since_us, fanout_us, first_us = _views("verdicts since_us fanout_us first_us", np.int64, None, None)
seen_serials, cache_serials = _views("seen_serials cache_serials", np.int64, None, None)
region_jitters, block_starts, node_counts = _views("region_jitters block_starts node_counts", np.int64, None, None)
scratch, candidates, record_serials, names = _views("scratch candidates record_serials names", np.int64, None, None)
apart, kept64, handed, latency_counts = _views("apart kept64 handed latency_counts", np.int64, None, None)
latencies_seen, long_latencies = _views("latencies_seen long_latencies", np.int64, None, None)
nodes32 = _view("nodes32", np.int32, None, NODE32)
nodes64 = _view("nodes64", np.int64, None, NODE64)
bytes_out, latencies, arena, retained = _views("bytes_out latencies arena retained", np.int64, None)
direct_starts, inject_targets, cut_pairs = _views("direct_starts inject_targets cut_pairs", np.int64, None)
dial_starts = _view("dial_starts", np.int64, None)
members, heads, tails, fills, sorted_links = _views("members heads tails fills sorted_links", np.int32, None, None)
pending, own_places, group_of, lost_links = _views("pending own_places group_of lost_links", np.int32, None, None)
peers, links_of, queued_links, chunk_next = _views("peers links_of queued_links chunk_next", np.int32, None)
columns_of, addresses, direct_targets = _views("columns_of addresses direct_targets", np.int32, None)
dial_targets = _view("dial_targets", np.int32, None)
links32 = _view("links32", np.int32, None, LINK32)
links64 = _view("links64", np.int64, None, LINK64)
link_marks, revived, natted, witnesses = _views("link_marks revived natted witnesses", np.uint8, None)
slot_marks, dial_buckets = _views("slot_marks dial_buckets", np.uint8, None)
cells, keys, part_sets = _views("cells keys part_sets", np.uint64, None, None)
queued, slot_times = _views("queued slot_times", np.int64, None, 2)
far, near, pool, leaving, outbox = _views("far near pool leaving outbox", np.int64, None, None, 4)
topic_times = _view("topic_times", np.int64, None, None, 4)
sorted_events, records, urgent, alone = _views("sorted_events records urgent alone", np.int64, None, None, 2)
frames = _view("frames", np.int64, None, None, 2)
ranks = _view("ranks", np.float64, None, None)
reals = _view("reals", np.float64, None, REALS)
topic_reals = _view("topic_reals", np.float64, None, None, TOPIC_REALS)
more32 = _view("more32", np.int32, None, MORE32)
more64 = _view("more64", np.int64, None, MORE64)
peer_scores, gaters = _views("peer_scores gaters", np.float64, None, 4)
topic_scores = _view("topic_scores", np.float64, None, None, 4)
mesh_times = _view("mesh_times", np.int64, None, None, 3)
senders, unwanted = _views("senders unwanted", np.uint64, None, None, None)
ratings = _view("ratings", np.float64, None)
address_names, detours = _views("address_names detours", np.int32, None, None, 2)
gated = _view("gated", np.float64, None, 5)
idontwants, direct_pairs = _views("idontwants direct_pairs", np.int32, None, 2)
dials = _view("dials", np.int64, None, None, 6)
findings = _view("findings", np.int64, None, None, FINDING)
tallies = _view("tallies", np.int64, None, TALLIES)
arrivals = _view("arrivals", np.int64, None, 6)
trees = _view("trees", np.int64, None, None, TREE_FIELDS)
kept32 = _view("kept32", np.int32, None, None, 4)
part_heads = _view("part_heads", np.int32, None, None, 8)
part_lines = _view("part_lines", np.int64, None, 11)
meetings = _view("meetings", np.int64, None, 7)
overlays = _view("overlays", np.int64, None, None, OVERLAY_FIELDS)
view_peers, view_notes = _views("view_peers view_notes", np.int32, None, None, None)
rows = _view("rows", np.int64, None, None, 13)
sums = _view("sums", np.uint64, None, 8)
counts = _view("counts", np.int64, None, COUNTERS)
control = _view("control", np.int64, None, CONTROL)
cut_ranges = _view("cut_ranges", np.int64, None, 3)


def _world(kind: WorldType) -> Any:
    """Return a kernel that makes a world of a given type from the array that Python passes to an entry."""

    @intrinsic
    def world(_typing: Any, table: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return context.make_array(signature.args[0])(context, builder, arguments[0]).data

        return kind(table), code

    return world


# Types of worlds. The scalars in the tuple of a type are 0 in its worlds. An entry for such worlds is compiled
# without the code that these scalars enable.
WITHOUT_EPISUB = (HAS_EPISUB, HAS_OVERLAY)
WITHOUT_FEATURES = (HAS_FEATURES, PART_WORDS)
_WITHOUT_SCORES = (HAS_SCORES, SAMPLES_SCORES, RETAINS, HAS_RATINGS, HAS_ADDRESSES)
WITHOUT_11 = (USES_11, USES_12, HAS_DIRECT, HAS_GATER, HAS_PLACES, *_WITHOUT_SCORES, *WITHOUT_FEATURES)
WITHOUT_DIALS = (HAS_DIALS, HAS_OVERLAY)
WITHOUT_LINKS = (HAS_LINKS, HAS_LOSS, HAS_JITTER, UPLINK, SERVICE)
_OLD_RULES = (*WITHOUT_EPISUB, *WITHOUT_11, *WITHOUT_DIALS)
world_checked: Any = _world(WorldType("WorldChecked"))
world_10_checked: Any = _world(WorldType("World10Checked", _OLD_RULES))
world: Any = _world(WorldType("World", (WITNESSES,)))
world_of_features: Any = _world(WorldType("WorldOfFeatures", (WITNESSES, *WITHOUT_EPISUB)))
world_of_mixes: Any = _world(WorldType("WorldOfMixes", (WITNESSES, *WITHOUT_FEATURES)))
world_11: Any = _world(WorldType("World11", (WITNESSES, *WITHOUT_EPISUB, *WITHOUT_FEATURES)))
world_of_overlays: Any = _world(WorldType("WorldOfOverlays", (WITNESSES, *WITHOUT_11)))
world_of_trees: Any = _world(WorldType("WorldOfTrees", (WITNESSES, *WITHOUT_11, *WITHOUT_DIALS)))
_WITHOUT_LATER = (WITNESSES, *_OLD_RULES)
world_10: Any = _world(WorldType("World10", _WITHOUT_LATER))
world_of_slots: Any = _world(WorldType("WorldOfSlots", (*_WITHOUT_LATER, *WITHOUT_LINKS)))


def _address(builder: Any, world: Any, name: str, index: Any, size: Any) -> Any:
    """Generate the address of an element or line of an array; `size` is the number of bytes of an element or line."""
    return builder.add(read(builder, world, _ARRAYS[name][0]), builder.mul(index, size))


def _bytes_at(builder: Any, address: Any) -> Any:
    """Generate a pointer to the byte at an address."""
    return builder.inttoptr(address, ir.IntType(8).as_pointer())


@intrinsic
def _words_at(_typing: Any, w: Any, at: Any) -> Any:
    """Return a view of the arena that begins at word `at`. The view has no extent, so accesses are not checked."""
    kind = ViewType("arena", types.int64, (0,))

    def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return make_view(context, builder, kind, _address(builder, arguments[0], "arena", arguments[1], word(8)), [])

    return kind(w, types.int64), code


words_at: Any = _words_at


def _slot_lines(builder: Any, world: Any, kind: WorldType, scalars: Iterable[int]) -> Iterator[tuple[str, Any]]:
    """Yield the name of each array in SLOT_ARRAYS at one of the scalars, and the number of bytes of one of its lines.

    Code that the caller generates before it asks for the next array runs only in runs that have this array.
    """
    for scalar in scalars:
        if scalar not in kind.without:
            with builder.if_then(builder.icmp_signed("!=", read(builder, world, scalar), word(0))):
                for name in SLOT_ARRAYS[scalar]:
                    at, dtype, extents = _ARRAYS[name]
                    size = word(np.dtype(dtype).itemsize)
                    for axis, extent in enumerate(extents[1:], start=2):
                        size = builder.mul(size, read(builder, world, at + axis) if extent is None else word(extent))
                    yield name, size


@intrinsic
def _move_slots(_typing: Any, w: Any, start: Any, goal: Any, count: Any) -> Any:
    """In all arrays of slots, copy the lines of the `count` slots from `start` on to the slots from `goal` on."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        world, *places, number = arguments
        for name, size in _slot_lines(builder, world, signature.args[0], SLOT_ARRAYS):
            source, target = (_address(builder, world, name, place, size) for place in places)
            _cgutils.raw_memmove(builder, _bytes_at(builder, target), _bytes_at(builder, source), number, size)
        return context.get_dummy_value()

    return types.void(w, types.int64, types.int64, types.int64), code


def _clearer(*scalars: int) -> Any:
    """Return a kernel that sets the line of a slot to 0 in the arrays that SLOT_ARRAYS has at these scalars."""

    @intrinsic
    def clear(_typing: Any, w: Any, slot: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            world, place = arguments
            for name, size in _slot_lines(builder, world, signature.args[0], scalars):
                _cgutils.memset(builder, _bytes_at(builder, _address(builder, world, name, place, size)), size, 0)
            return context.get_dummy_value()

        return types.void(w, types.int64), code

    return clear


move_slots: Any = _move_slots
clear_slot = _clearer(*SLOT_ARRAYS)
clear_scores = _clearer(HAS_SCORES)
clear_traits = _clearer(HAS_FEATURES)


def _toucher(name: str) -> Any:
    """Return a kernel that prefetches the cache line of an element of an array. The index that the kernel gets is the
    one in the flattened array."""

    @intrinsic
    def touch(_typing: Any, w: Any, index: Any) -> Any:
        def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            size = word(np.dtype(_ARRAYS[name][1]).itemsize)
            line = _bytes_at(builder, _address(builder, arguments[0], name, arguments[1], size))
            flag = ir.IntType(32)
            prefetch = builder.module.declare_intrinsic(
                "llvm.prefetch", [line.type], ir.FunctionType(ir.VoidType(), [line.type, flag, flag, flag])
            )
            builder.call(prefetch, [line, flag(0), flag(3), flag(1)])
            return context.get_dummy_value()

        return types.void(w, types.int64), code

    return touch


touch_nodes32, touch_bytes_out, touch_members = map(_toucher, ("nodes32", "bytes_out", "members"))
touch_seen, touch_cached, touch_cells, touch_queued = map(_toucher, ("seen", "cached", "cells", "queued"))
touch_peers, touch_flags, touch_known_topics = map(_toucher, ("peers", "flags", "known_topics"))
touch_links32, touch_links_of, touch_arena = map(_toucher, ("links32", "links_of", "arena"))


class Arrays:
    """The arrays of a run by name, and the world that points to them."""

    def __init__(self) -> None:
        self.world: World = np.zeros(SCALARS + _WORDS_OF_ARRAY * len(_ARRAYS), dtype=np.int64)
        self._held: dict[str, NDArray[Any]] = {}
        for name, (_, dtype, extents) in _ARRAYS.items():
            self[name] = np.zeros([extent or 1 for extent in extents], dtype)

    def __setitem__(self, name: str, array: NDArray[Any]) -> None:
        at, dtype, extents = _ARRAYS[name]
        shape = tuple(extent or found for extent, found in zip(extents, array.shape, strict=True))
        if array.dtype != dtype or array.shape != shape or not array.flags.c_contiguous:
            raise TypeError(f"{name} must be a contiguous array of {dtype} and of shape {extents}")
        self._held[name] = array
        self.world[at] = array.ctypes.data
        self.world[at + 1 : at + 1 + len(shape)] = shape

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._held[name]

    def make(self, names: str, *extents: int, value: int = 0, sparse: bool = False) -> None:
        """Create arrays, filled with `value`. `names` has the names of the arrays, with blanks between them.

        `extents` are the extents that are None in `_ARRAYS`, the same for all of these arrays. An array is `sparse`
        (`zeros`) if a run uses little of it.
        """
        for name in names.split():
            _, dtype, known = _ARRAYS[name]
            given = iter(extents)
            shape = tuple(next(given) if extent is None else extent for extent in known)
            self[name] = zeros(shape, dtype, sparse=sparse)
            if value:
                self[name][...] = value
