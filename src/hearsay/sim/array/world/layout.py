"""The world of a run: one array of integers that all kernels get, and views of the arrays that it points to.

`w` holds scalars first (`NODES`, `WIDTH_BITS`, …), then the address and the extents of each array. A kernel gets `w`
and reads what it needs, `cells(w)[node, column]`. Passing all arrays as arguments would take longer than most kernels
run; and between two calls of an entry Python can replace an array by a larger one.

These names mean the same in all kernels:

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
| bases | purpose | the hash of seed and purpose, with which every draw begins |
| topics, topic_keys | topic | number in the trace, bytes of the name, memory; hash of the name |
| allowed | router, topic | whether a router takes part in a topic; only with `allowed_topics` |
| messages | message, field | what is known of every message before the run |
| verdicts | message, field | the applications' verdict on a message, and its eligible nodes; only with HAS_VERDICTS |
| accepting | line, node | whether the node accepts messages that others refuse; only with HAS_VERDICTS |
| nodes32, nodes64 | node, field | the header of a node |
| bytes_out | node | the encoded bytes that the node sent |
| members, since_us, fanout_us | node, topic | membership; time of the join; time of the last publish to the fan-out |
| peers, flags, links_of | slot (, topic) | the neighbour; bits such as IN_MESH; the newest link to the neighbour |
| links32, links64 | link, field | one direction of a connection; only with loss, jitter, uplinks or faults |
| seen, cached | word | a bit for each node and column |
| cells, first_us | node, column | what a node knows of a message; when it saw it first |
| revived | column | whether a node saw the message again after all nodes had forgotten it |
| queued, queued_links, chunk_next | chunk | the queue of events, see `queue.py`, also for `near` and `far` |
| heads, tails, fills | thread, bucket | first and last chunk of each bucket, and the events in the last one |
| arena, pending | word; thread, chunk | RPCs that do not fit into an event, see `payload.py` |
| pool | thread, entry, field | entries of short lists, see `lists.py` |
| outbox | thread, entry, field | what the present call sends, see `outbox.py` |
| scratch | thread, place | ids and other content of parts that the present call sends |
| candidates | thread, place | slots (in episub also peers) from which a kernel chooses some |
| ranks, keys, marks | thread, place | for each candidate: a score, a random number, whether it is chosen |
| control | thread, field | counters and flags of a thread and of its present call |
| leaving | thread, place, field | copies that wait until memory is prefetched, see `transport.py` |
| rows, sums, counts | thread | the results of the run, see `record.py` |
| witnesses | node | whether the calls of the node are noted, see `notes.py` |
| reals, topic_reals, topic_times | router (, topic), field | parameters of scores, and others that are no integers |
| more32, more64 | node, field | the rest of the header; only with USES_11, USES_12 or HAS_DIALS |
| peer_scores, topic_scores, mesh_times | slot (, place), field | score counters of a neighbour; only with scores |
| own_places | node, topic | the index of a topic among the topics that the node ever joins; only with scores |
| columns_of | message | the column of the message; only with CLUSTERS |
| records, senders | node, column, field | delivery record; a bit for each slot that sent a copy; only with scores |
| record_serials | node, column | the order in which records began; only with MAX_DELIVERIES_BINDS |
| retained | slot | until when a disconnected neighbour's score is kept; only with RETAINS |
| ratings, rated | entry (, node) | ratings (P5); which nodes are rated, and by which; only with HAS_RATINGS |
| address_names | router, node, place | the numbers of addresses under which P6 counts the node, -1 for none |
| gated | slot, field | the gater's counts for an address, the same for all its peers; only with a gater |
| gaters | node, field | the gater's counts for a node; only with a gater |
| addresses | node | the number of its address, an unshared one if it has none; with HAS_GATER or HAS_PLACES |
| idontwants | slot, field | counts of a neighbour's RPCs with IDONTWANT, and of their ids; only with 1.2 |
| unwanted | node, column, word | a bit for each neighbour that does not want the message; only with 1.2 |
| urgent | thread, entry, field | IDONTWANTs that the present call sends |
| names, name_marks | thread, place | peers that the PRUNEs of the present call name; only with HAS_DIALS |
| known_topics, apart | slot, topic | what the check knows of a peer, see `checks.py`; only with WITNESSES |
| tallies | thread, field | parts received and lost, and the number of findings; only with WITNESSES |
| slot_marks | slot | whether a GRAFT or PRUNE is in flight, see `mutual.py`; only with WITNESSES |
| findings | thread, place, field | broken invariants; only with WITNESSES |
| direct_pairs | pair, 0 or 1 | direct peers that connect at the start; only with HAS_DIRECT |
| direct_starts, direct_targets | node; place | the direct peers of each node, ascending; only with HAS_DIRECT |
| dials, arrivals | (thread,) entry, field | dials of routers, see `dials.py` |
| alarms | node, field | the timer of a router of episub, and alarms; only with HAS_EPISUB |
| trees | node, topic, field | the broadcast tree of a topic; only with HAS_EPISUB |
| kept32, kept64 | node, column, field | messages that a tree can send again; only with HAS_EPISUB |
| detours | slot, topic, field | the neighbour that this slot's peer could replace in a tree; only with HAS_OVERLAY |
| meetings | node, field | lists of errands and dials, see `meetings.py`; only with HAS_OVERLAY |
| overlays | node, topic, field | the state of an overlay of episub; only with HAS_OVERLAY |
| view_peers, view_notes | node, topic, place | the active list, then from MOST_ACTIVE on the passive one |
| slot_times | slot, field | when an unused connection ends, and the wait for a pong; only with HAS_OVERLAY |
| errands | place, field | what to do with a peer once it is connected, see `meetings.py`; only with HAS_OVERLAY |
| frames | thread, place, field | a stack of link requests to send, see `growth.py`; only with HAS_OVERLAY |
| tree_marks | slot, topic | NEWLY_EAGER and NEWLY_UP; only with HAS_EPISUB |
| traits | slot, 1 + topic | extensions of a neighbour, then its use of partial messages; only with HAS_FEATURES |
| part_topics, part_heads | (node,) topic, field | partial messages; only with PART_WORDS, as the next four |
| group_of | node, column | the line of a message's group, 0 for none |
| part_lines, part_sets | line, field; line, word | groups and their peers, see `part_lines.py` |
| handed | thread, entry | messages that the present call delivered, for applications of partial messages |
| alone | thread, entry, field | slot and index of RPCs that are sent after all others; only with HAS_FEATURES |
| natives | router, router | how a router treats peers that run another one: FLOODED, MESHED, … |
| schedule, planned | line, field | events of the whole network, and those of single nodes, by time |
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numba.np.numpy_support import from_dtype
from numpy.typing import NDArray

from hearsay.sim.array.machine.views import ViewType, WorldType, make_view, read, word
from hearsay.sim.plan.engines import WITH_KERNELS

World = NDArray[np.int64]
Word: TypeAlias = np.uint64
"""The type of draws, hashes and cells."""


class Numbers:
    """A counter that gives scalars and fields their numbers: 0, 1, 2, …"""

    def __init__(self) -> None:
        self.count = 0

    def take(self, count: int) -> range:
        self.count += count
        return range(self.count - count, self.count)


_scalar = Numbers()
(
    NOW, BUCKET, PART_END, STATUS, FIRST_MESSAGE, NEWEST, CLOSED_UP_TO, GLOBALS_DONE, PLANNED_DONE, PART_EVENTS,
    SLOTS_USED, LINKS_USED, DEAD_UP_TO, DEAD_SURE, LOOKED, DIALS_UP_TO, BUCKET_IS_SPLIT, PART_BLOCKS,
    LINKS_FREE, LINKS_SPARE, LINKS_WANTED, NETWORK_STARTS, MOST_SLOTS, ARRIVALS, DIALS_MADE,
    LINES_FREE, LINES_USED, HELD_END,
) = _scalar.take(28)  # fmt: skip
"""Scalars that change while kernels run. Times are in microseconds. BUCKET: the number of the open bucket. A bucket
is handled in parts (`loop.py`); the open part ends at PART_END, and new events before HELD_END go into `near`.
STATUS: the reason why an entry returned. FIRST_MESSAGE: all nodes have forgotten older messages. NEWEST: the number
of messages that have been given a column. CLOSED_UP_TO: the number of messages whose window is over. GLOBALS_DONE,
PLANNED_DONE: the numbers of handled lines of `schedule` and `planned`. PART_EVENTS, PART_BLOCKS: the numbers of
events and of blocks of nodes in the open part. LINKS_FREE: the first of LINKS_SPARE links that may be used again; see
`reuse.py`, also for DEAD_UP_TO, DEAD_SURE and LOOKED. LINKS_WANTED: the number of links that are needed if STATUS is
NEEDS_LINKS. NETWORK_STARTS: 1 while the open part makes the first connections. MOST_SLOTS: the largest number of
slots that a node uses. For DIALS_UP_TO see `links.py`, for BUCKET_IS_SPLIT `queue.py`, for ARRIVALS and DIALS_MADE
`dials.py`, for LINES_FREE and LINES_USED `part_lines.py`."""
WorldType.changing = _scalar.count
NODES, TOPICS, MESSAGES, COLUMNS, SLOTS, LINKS, END, WIDTH_BITS, BUCKETS, BLOCK_BITS, BLOCKS = _scalar.take(11)
"""A bucket is 2 ** WIDTH_BITS microseconds wide. COLUMNS is a power of two."""
HAS_LINKS, HAS_LOSS, LOSS, LOSS_CONTROL, HAS_JITTER, JITTER, UPLINK, UPLINK_BYTES = _scalar.take(8)
LATENCY_KIND, LATENCY_LEAST, LATENCY_SPAN, REGION_COUNT = _scalar.take(4)
SERVICE, VALIDATION, HAS_VERDICTS, DETECTION, REDIAL, LINGER = _scalar.take(6)
SEEN_EXPIRES, TRACING, THREADS, GLOBALS, SCRIPT, TRACKS_SINCE, MEASURED = _scalar.take(7)
MAX_SEEN_BINDS, MAX_CACHED_BINDS, LOOKAHEAD = _scalar.take(3)
"""LOOKAHEAD: within a bucket, no node depends on what another node does in it."""
RECYCLES, ROUTERS, ALL_NATIVE, HAS_NATTED = _scalar.take(4)
SEEN_FOR, CHANGES_NOTHING, DEFERS, QUIET_UNTIL = _scalar.take(4)
WITNESSES, USES_11, HAS_SCORES, SAMPLES_SCORES, USES_12, RETAINS, WIDEN_FROM = _scalar.take(7)
HAS_RATINGS, HAS_ADDRESSES, HAS_OWN_PLACES, CLUSTERS, HAS_DIALS, HAS_DIRECT = _scalar.take(6)
HAS_GATER, SHARES_ADDRESSES, MAX_DELIVERIES_BINDS, HAS_FILTERS, HAS_EPISUB = _scalar.take(5)
HAS_OVERLAY, MOST_ACTIVE, RENDEZVOUS, HAS_PLACES, HAS_FEATURES, PART_WORDS = _scalar.take(6)
"""SEEN_FOR: the least time for which a node remembers a message. CHANGES_NOTHING: bits of payloads that have no
effect at nodes that have seen their messages. DEFERS: RPCs wait in `leaving` (`transport.py`). QUIET_UNTIL: until
this time only the first connections are made; 0 if that is not so. WITNESSES: the run is checked, and the calls of
some nodes are noted. USES_11: some router uses 1.1 or has `ask_again_heartbeats`, or routers dial. HAS_SCORES: some
router has scores. USES_12: some router uses IDONTWANT, or skips senders. RETAINS: neighbours that disconnect may keep
their scores. WIDEN_FROM: the most slots of a node for which `senders` has enough words. HAS_OWN_PLACES: each node
joins few of the topics. CLUSTERS: columns of a topic's messages are next to each other. HAS_DIALS: routers dial; then
links have memory, and PRUNEs name peers. HAS_DIRECT: nodes have direct peers. SHARES_ADDRESSES: some nodes have the
same address. HAS_OVERLAY: some router of episub chooses its neighbours. MOST_ACTIVE: the most neighbours in an active
list of such a router. HAS_PLACES: some router has `places_per_address`. HAS_FEATURES: some router has extensions of
1.3. PART_WORDS: the number of words in a set of parts, 0 if no topic has partial messages."""
SCALARS = 104

# Values of STATUS: why a call of an entry returned.
(
    OK, QUEUE_FULL, POOL_FULL, ARENA_FULL, ROWS_WAIT, OUTBOX_FULL, NEEDS_COLUMNS, NEEDS_SLOTS, NEEDS_LINKS, FINISHED,
    ROWS_FULL, PARTS_FULL,
) = range(12)  # fmt: skip
LIMIT_WORDS = {
    QUEUE_FULL: "more events at once",
    POOL_FULL: "more entries of short lists",
    ARENA_FULL: "more RPCs under way",
    OUTBOX_FULL: "more parts of one node at once",
    ROWS_FULL: "more rows of the trace at once",
    PARTS_FULL: "more groups of messages in parts",
}

# Router parameters.
_field = Numbers()
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
) = _field.take(157)  # fmt: skip
PARAMETERS = 157
"""Fields of `parameters`; `router_parameters.py` has the parameter of each. HAS_11: the router uses gossipsub 1.1.
SCORES: it has scores; the fields up to MAX_SENDERS are about these. TELL_FROM: the message size from which the mesh
gets IDONTWANT. MAX_CHANGES: the most subscriptions in an RPC. From TREE_FLOODS to MOST_DIALS the fields are those of
episub; GRAFTS_ALL: the loss of an eager link makes lazy ones eager. OWN_FEATURES: the bits EXCHANGES_PARTS and
TESTS."""
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
FLOODSUB, RANDOMSUB, EPISUB, MESHSUB, GOSSIPSUB = (
    WITH_KERNELS.index(kind) for kind in ("floodsub", "randomsub", "episub", "meshsub", "gossipsub")
)
FLOODED, MESHED, TAKES_BACKOFFS, TAKES_IDONTWANT, TAKES_FEATURES = range(5)
"""Values of `natives`: how a router treats a peer. FLOODED: it floods to the peer and no more, because their
common protocol is not one of the router's own. Other peers are native: MESHED without additions, TAKES_BACKOFFS with
backoffs in PRUNEs, TAKES_IDONTWANT also with IDONTWANT, TAKES_FEATURES also with extensions."""

# Topics and messages.
TOPIC_NUMBER, TOPIC_LENGTH, EMPTY_MESSAGE, SUBSCRIPTION = range(4)
"""Fields of `topics`. EMPTY_MESSAGE, SUBSCRIPTION: bytes in memory of a message without data, and of a
subscription."""
TOPIC, PUBLISHER, PUBLISHED, DATA_BYTES, ALONE_BYTES, MESSAGE_PART_BYTES, MESSAGE_BYTES, INJECT_FROM = range(8)
"""Fields of `messages`. MESSAGE_BYTES: the encoded bytes of the message itself; MESSAGE_PART_BYTES: as a part of an
RPC; ALONE_BYTES: as a whole RPC with its length prefix. INJECT_FROM: the first of its lines in `inject_targets`,
which end where those of the next message begin."""

REASON, ACCEPTING, REFUSED, DUE_OF, REACHED_OF = range(5)
"""Columns of `verdicts`. REASON: why nodes refuse the message, -1 if they accept it. ACCEPTING: its line of
`accepting`. REFUSED: whether a node refused it; if so, the other two columns do not count. DUE_OF: the number of
eligible nodes. REACHED_OF: how many of these got it, with a column for each thread."""

# Nodes.
(
    COUNT, CAP, FIRST_SLOT, STARTS, TICK, ROUTER, UP, ANSWERS, NEWS, BACKOFFS, OLDEST, AGES_AT, GOSSIPS_FROM,
    OWED, BACKLOG, BACKLOG_END,
) = range(16)  # fmt: skip
"""Fields of `nodes32`. COUNT of CAP slots are in use. STARTS: how often the node was started. TICK: heartbeats since
the last start. OLDEST: no older message is cached, or remembered for a number of heartbeats. AGES_AT: no message is
forgotten before this heartbeat. GOSSIPS_FROM: no older message is gossiped about. OWED: the bits UNANNOUNCED and
UNSENT, each set if any slot of the node has it, and the bits WAITS_TO_ANNOUNCE and FEATURES_OWED. The other fields
are heads of lists (`lists.py`)."""
WAITS_TO_ANNOUNCE, FEATURES_OWED = 1, 2
"""Bits of OWED. WAITS_TO_ANNOUNCE: a router without a heartbeat has set a timer to announce subscriptions again.
FEATURES_OWED: the extensions of the router could not be sent to some peer."""
MORE32 = 8
MORE64 = 4
PROMISES, ASKED_AT, SENDERS, UNWANTED_QUEUE, UNWANTED_LAST = range(16, 21)
"""Heads of lists in `more32`, numbered after the fields of `nodes32`. UNWANTED_LAST: the end of UNWANTED_QUEUE."""
DIALLING, NAMED_DIALLED = 5, 6
"""Fields of `more32`: the number of dials under way, and of peers dialled since the last heartbeat by peer
exchange."""
REFRESH_DUE, REFRESHED, UNWANTED_COUNT, UPLINK_AT = range(4)
"""Fields of `more64`. REFRESH_DUE, REFRESHED: the times of the next decay of scores and of the last one.
UNWANTED_COUNT: the number of entries in UNWANTED_QUEUE. UPLINK_AT: the index of the uplink in `arena`
(`uplink.py`)."""
NODE32 = 16
"""One cache line."""
DUE, UPLINK_FREE, SERIAL, PENDING = range(4)
"""Fields of `nodes64`. DUE: when the next heartbeat is due; used only if timers also serve other ends or are delayed.
UPLINK_FREE: when the uplink is free. SERIAL: the last number in the order of a bounded cache. PENDING: the number of
messages in validation."""
NODE64 = 4
NEVER = (1 << 31) - 1
"""Value of AGES_AT and GOSSIPS_FROM without a message."""
APPLICATION, JOINED, FANOUT, COUNTED = 1, 2, 4, 8
"""Bits of `members`. APPLICATION: the application is a member. JOINED: the router has joined the topic. FANOUT: the
router has a fan-out for it. COUNTED: the topic counts for scores, from its first join on."""
MESH_SIZE = 4
"""The lowest bit of the size of the mesh in `members`."""

# Lines of a thread in `control` and `counts` fill whole cache lines, so that no two threads write to the same one.
CONTROL = 40
(
    CHUNK_FREE, CHUNK_FRESH, CHUNK_END, NEAR, NEAR_SERIAL, FAR, FAR_FIRST, POOL_FREE, POOL_FRESH, OUT_COUNT,
    OUT_MODE, OUT_MESSAGE, OUT_VIA, OUT_TOPIC, SCRATCH_USED, ARENA_AT, ARENA_LEFT, ARENA_FREE, ARENA_FRESH, ARENA_END,
    ARENA_CHUNK, ARENA_TAKEN, LEAVING_FIRST, LEAVING_NEXT, KEEPS_SCORES, WELCOMES, HIDES_PEERS, IDS_IN_RPC, URGENT,
    NAMES, DIALS, NAMED_HOPS, FRAMES, ERRAND_FREE, ERRAND_FRESH, ALONE, HANDED, REMINDS,
) = range(38)  # fmt: skip
"""Fields of `control`. …_FREE: the first entry that may be used again, -1 for none; …_FRESH: the first entry that was
never used. ERRAND_FREE and ERRAND_FRESH, those of `errands`, are used in the line of thread 0 only. OUT_…: see
`outbox.py`. KEEPS_SCORES: a heartbeat runs, and reads each score once. WELCOMES, HIDES_PEERS and IDS_IN_RPC are about
the RPC that is handled: what the sender's score permits (0 until it is read), whether PRUNEs name no peers, and the
number of ids in its IHAVEs so far. NAMED_HOPS: the hops field of the message that is handled, 0 for none. URGENT,
NAMES, DIALS, FRAMES, ALONE, HANDED and SCRATCH_USED: the number of used entries of these arrays. REMINDS: a heartbeat
took place, after which applications of partial messages ask other peers for late parts."""
COUNTERS = 40
TALLIES = 80
FINDING = 6

# Slots.
SUBSCRIBED, IN_MESH, IN_FANOUT, UNANNOUNCED, UNSENT, CONNECTED, NATIVE, DIALLED = 1, 2, 4, 8, 16, 32, 64, 128
"""Bits of `flags`. UNANNOUNCED: a SUBSCRIBE or UNSUBSCRIBE could not be sent; UNSENT: a GRAFT or PRUNE. CONNECTED,
NATIVE and DIALLED are set for the first topic only. NATIVE: the peer speaks a protocol of the node's router. DIALLED:
the node dialled. Before a slot is connected, NATIVE means instead that its peer dials, too."""
IS_EAGER, IS_LAZY = IN_MESH, IN_FANOUT
"""The meaning of these two bits in a tree, where each neighbour has one of them."""
NEWLY_EAGER, NEWLY_UP = 1, 2
"""Bits of `tree_marks`: since the last IHAVE, the peer became eager, or became a neighbour."""
MISBEHAVIOUR, SLOWNESS, SCORE, KEPT = range(4)
"""Fields of `peer_scores`. SCORE: the sum, NaN until it is computed again; KEPT: the score that a heartbeat uses."""
RATED, BY = 1, 2
"""Bits of `rated`: the entry rates the node; the node's application gives this rating."""
FIRST, MESH, FAILURES, INVALID = range(4)
"""Fields of `topic_scores`."""
SLOT_SCORES = ("peer_scores", "topic_scores", "mesh_times")
GRAFTED, TIME_IN_MESH, MESH_BITS = range(3)
"""Fields of `mesh_times`. GRAFTED: when the peer entered the mesh; TIME_IN_MESH: for how long, at the last decay."""
ACTIVE, UNSUBSCRIBED = 1, 2
"""Bits of MESH_BITS: deliveries are expected; the peer left the mesh by UNSUBSCRIBE."""
RECORD, DECIDED = range(2)
"""Fields of `records`. RECORD: the time at which the record ends, shifted left, and its state in the lowest
STATE_BITS; 0 without a record. DECIDED: the time at which the message was accepted."""
STATE_BITS = 3
BROUGHT, REPEATED, IGNORED, REJECTED, AWAY_UNTIL = range(5)
"""Fields of `gated`: messages of the address that were new, duplicate, ignored and rejected. AWAY_UNTIL: until when
the counts are kept after the last peer at the address disconnected, 0 while one is connected."""
VALIDATED, THROTTLED, THROTTLED_AT, GATER_DUE = range(4)
"""Fields of `gaters`. Times are doubles, too, which hold microseconds exactly for 285 years."""

# Links.
LINK_SOURCE, DESTINATION, TWIN, PREVIOUS, SEQUENCE, LINK_FLAGS = range(6)
LINK32 = 6
OPEN, CUT, DEAD, OUTBOUND = 1, 2, 4, 8
"""Bits of LINK_FLAGS. OPEN: the source's router knows the connection. CUT: a fault cut it, RPCs on it no longer
arrive. DEAD: it is lost, whether or not the source has noticed that. OUTBOUND: the source dialled."""
LATENCY, LAST_ARRIVAL = range(2)
LINK64 = 2

# Cells: what a node knows of a message.
ASKED, DELIVERED, MISSED, HELD, MISSING, QUEUED = 1, 2, 4, 8, 16, 32
"""Bits of cells. ASKED: the application is validating the message. MISSED: the node was eligible, but got no delivery
before the message's window was over. HELD, MISSING and QUEUED are set by a tree of episub: it can send the message
again, knows it from announcements only, or has yet to announce it."""
SEEN_BEAT, CACHE_BEAT, HOPS = 6, 26, 47
BEATS = (1 << 20) - 1
HOPS_CAP = (1 << 17) - 1
"""SEEN_BEAT, CACHE_BEAT and HOPS: the lowest bits of fields of a cell, with their masks BEATS and HOPS_CAP: the
heartbeats (TICK) in which the message was seen and cached, and the hops to the node."""

# Trees.
TIMER, ANNOUNCE, FLUSH_DUE, MISSING_DUE = range(4)
"""Fields of `alarms`: the time for which the timer is set, and alarms that it serves; -1 for none."""
(
    KEPT_FIRST, KEPT_LAST, KEPT_COUNT, KEPT_SIZE, QUEUE, QUEUE_COUNT, MISSING_FIRST, MISSING_LAST, MISSING_COUNT,
    LATEST_FROM,
) = range(10)  # fmt: skip
"""Fields of `trees`: the oldest and the newest message that is kept, the first and last entries of lists, -1 for
none; and counts. KEPT_SIZE: the bytes of kept messages. LATEST_FROM: the neighbour that sent the newest message, or
-1."""
TREE_FIELDS = 10
AHEAD_OF, AHEAD_BY = range(2)
"""Fields of `detours`. AHEAD_OF: the number plus one of the neighbour that sent the node a message, if the slot's
peer had the message with no more hops than the node; 0 otherwise. AHEAD_BY: the hops of the slot's peer minus those
of the node, 0 or less."""
FIXED_OVERLAY, SEEDS_OVERLAY, HYPARVIEW = range(3)
"""Values of OVERLAY."""
SWEEP_DUE, SEQUENCE_NUMBER, ERRANDS, UNDER_WAY, DIAL_COUNT, GOING, ASKED_DISCOVERY = range(7)
"""Fields of `meetings`: an alarm, the last sequence number, the heads of the lists of errands and of dialled peers,
the number of dialled peers, the peer whose disconnection is being handled, and how often discovery was asked."""
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
"""Fields of `slot_times`: when an unused connection is closed, when a ping counts as unanswered; 0 for never."""
KEPT_HOPS, KEPT_PARENT, KEPT_NEWER, KEPT_OLDER = range(4)
"""Fields of `kept32`. KEPT_HOPS: twice the router's hops, plus one if the received copy named its hops. KEPT_PARENT:
the peer that sent the message, -1 for a message of the node. KEPT_NEWER, KEPT_OLDER: the messages that were kept next
and before, -1 for none. `kept64` has the time at which the message was kept."""

# Extensions and partial messages.
HAS_SENT, EXCHANGES_PARTS, TESTS, UNSAID = 1, 2, 4, 8
"""Bits in the first column of `traits`. HAS_SENT: the peer has sent an RPC. EXCHANGES_PARTS, TESTS: its extensions.
UNSAID: the node's own extensions could not be sent to it."""
USE, PARTS, KNOWN_PARTS, IS_EAGER_TOPIC, ASKS_ONE, PART_BYTES, NO_PARTS_BYTES, CLAIM_BYTES = range(8)
"""Fields of `part_topics`. USE: how nodes use partial messages (`core/rules/partial_rules.py`), 0 if the topic's
messages are sent whole. PARTS, KNOWN_PARTS: the number of parts, and of those that nodes know from elsewhere.
IS_EAGER_TOPIC and ASKS_ONE are flags. The last three are the encoded bytes of a part, of an empty set of parts, and
of a claim (the parts that a node holds and wants)."""
CHOSEN, FIRST_GROUP, SERIALS, FIRST_HELD, LAST_HELD, HELD_COUNT, FIRST_ASKED, ASKED_COUNT = range(8)
"""Fields of `part_heads`. CHOSEN: whether the node uses partial messages. The others are about lists of groups, see
`part_lines.py`; FIRST_… and LAST_… are lines, 0 for none."""

# Arrays.
_ARRAYS: list[tuple[str, Any, tuple[int | None, ...]]] = []
_LINE = 4
"""Words of an array in the world: its address, and up to three extents."""


def _view(name: str, dtype: Any, *extents: int | None) -> Any:
    """Return a kernel that returns a view of an array of the world; the order of these calls numbers the arrays."""
    at = SCALARS + _LINE * len(_ARRAYS)
    _ARRAYS.append((name, dtype, extents))
    kind = ViewType(name, from_dtype(np.dtype(dtype)), extents)

    @intrinsic
    def view(_typing: Any, w: Any) -> Any:
        def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            address, *found = (read(builder, arguments[0], at + place) for place in range(1 + len(extents)))
            return make_view(context, builder, kind, address, found)

        return kind(w), code

    return view


parameters = _view("parameters", np.int64, None, PARAMETERS)
bases = _view("bases", np.uint64, None)
topics = _view("topics", np.int64, None, 4)
topic_keys = _view("topic_keys", np.uint64, None)
allowed = _view("allowed", np.uint8, None, None)
messages = _view("messages", np.int64, None, 8)
verdicts = _view("verdicts", np.int64, None, None)
accepting = _view("accepting", np.uint8, None, None)
nodes32 = _view("nodes32", np.int32, None, NODE32)
nodes64 = _view("nodes64", np.int64, None, NODE64)
bytes_out = _view("bytes_out", np.int64, None)
members = _view("members", np.int32, None, None)
since_us = _view("since_us", np.int64, None, None)
fanout_us = _view("fanout_us", np.int64, None, None)
peers = _view("peers", np.int32, None)
flags = _view("flags", np.uint8, None, None)
links_of = _view("links_of", np.int32, None)
links32 = _view("links32", np.int32, None, LINK32)
links64 = _view("links64", np.int64, None, LINK64)
link_marks = _view("link_marks", np.uint8, None)
seen = _view("seen", np.uint64, None)
cached = _view("cached", np.uint64, None)
cells = _view("cells", np.uint64, None, None)
revived = _view("revived", np.uint8, None)
first_us = _view("first_us", np.int64, None, None)
seen_serials = _view("seen_serials", np.int64, None, None)
cache_serials = _view("cache_serials", np.int64, None, None)
latencies = _view("latencies", np.int64, None)
region_jitters = _view("region_jitters", np.int64, None, None)
natives = _view("natives", np.uint8, None, None)
natted = _view("natted", np.uint8, None)
witnesses = _view("witnesses", np.uint8, None)
queued = _view("queued", np.int64, None, 2)
queued_links = _view("queued_links", np.int32, None)
chunk_next = _view("chunk_next", np.int32, None)
heads = _view("heads", np.int32, None, None)
tails = _view("tails", np.int32, None, None)
fills = _view("fills", np.int32, None, None)
far = _view("far", np.int64, None, None, 4)
sorted_events = _view("sorted_events", np.int64, None, None, 2)
sorted_links = _view("sorted_links", np.int32, None, None)
block_starts = _view("block_starts", np.int64, None, None)
near = _view("near", np.int64, None, None, 4)
arena = _view("arena", np.int64, None)
pending = _view("pending", np.int32, None, None)
node_counts = _view("node_counts", np.int64, None, None)
planned = _view("planned", np.int64, None, 4)
pool = _view("pool", np.int64, None, None, 4)
leaving = _view("leaving", np.int64, None, None, 4)
outbox = _view("outbox", np.int64, None, None, 4)
scratch = _view("scratch", np.int64, None, None)
candidates = _view("candidates", np.int64, None, None)
ranks = _view("ranks", np.float64, None, None)
keys = _view("keys", np.uint64, None, None)
reals = _view("reals", np.float64, None, REALS)
topic_reals = _view("topic_reals", np.float64, None, None, TOPIC_REALS)
topic_times = _view("topic_times", np.int64, None, None, 4)
more32 = _view("more32", np.int32, None, MORE32)
more64 = _view("more64", np.int64, None, MORE64)
peer_scores = _view("peer_scores", np.float64, None, 4)
topic_scores = _view("topic_scores", np.float64, None, None, 4)
mesh_times = _view("mesh_times", np.int64, None, None, 3)
records = _view("records", np.int64, None, None, 2)
record_serials = _view("record_serials", np.int64, None, None)
senders = _view("senders", np.uint64, None, None, None)
own_places = _view("own_places", np.int32, None, None)
columns_of = _view("columns_of", np.int32, None)
retained = _view("retained", np.int64, None)
ratings = _view("ratings", np.float64, None)
rated = _view("rated", np.uint8, None, None)
address_names = _view("address_names", np.int32, None, None, 2)
gated = _view("gated", np.float64, None, 5)
gaters = _view("gaters", np.float64, None, 4)
addresses = _view("addresses", np.int32, None)
idontwants = _view("idontwants", np.int32, None, 2)
unwanted = _view("unwanted", np.uint64, None, None, None)
urgent = _view("urgent", np.int64, None, None, 2)
names = _view("names", np.int64, None, None)
name_marks = _view("name_marks", np.uint8, None, None)
dials = _view("dials", np.int64, None, None, 6)
slot_marks = _view("slot_marks", np.uint8, None)
findings = _view("findings", np.int64, None, None, FINDING)
tallies = _view("tallies", np.int64, None, TALLIES)
known_topics = _view("known_topics", np.uint8, None, None)
apart = _view("apart", np.int64, None, None)
direct_pairs = _view("direct_pairs", np.int32, None, 2)
direct_starts = _view("direct_starts", np.int64, None)
direct_targets = _view("direct_targets", np.int32, None)
arrivals = _view("arrivals", np.int64, None, 6)
alarms = _view("alarms", np.int64, None, 4)
trees = _view("trees", np.int64, None, None, TREE_FIELDS)
kept32 = _view("kept32", np.int32, None, None, 4)
kept64 = _view("kept64", np.int64, None, None)
tree_marks = _view("tree_marks", np.uint8, None, None)
traits = _view("traits", np.uint8, None, None)
part_topics = _view("part_topics", np.int64, None, 8)
part_heads = _view("part_heads", np.int32, None, None, 8)
group_of = _view("group_of", np.int32, None, None)
part_lines = _view("part_lines", np.int64, None, 11)
part_sets = _view("part_sets", np.uint64, None, None)
alone = _view("alone", np.int64, None, None, 2)
handed = _view("handed", np.int64, None, None)
detours = _view("detours", np.int32, None, None, 2)
meetings = _view("meetings", np.int64, None, 7)
overlays = _view("overlays", np.int64, None, None, OVERLAY_FIELDS)
view_peers = _view("view_peers", np.int32, None, None, None)
view_notes = _view("view_notes", np.int32, None, None, None)
slot_times = _view("slot_times", np.int64, None, 2)
errands = _view("errands", np.int64, None, 8)
frames = _view("frames", np.int64, None, None, 2)
marks = _view("marks", np.uint8, None, None)
rows = _view("rows", np.int64, None, None, 13)
sums = _view("sums", np.uint64, None, 8)
counts = _view("counts", np.int64, None, COUNTERS)
latency_counts = _view("latency_counts", np.int64, None, None)
latencies_seen = _view("latencies_seen", np.int64, None, None)
long_latencies = _view("long_latencies", np.int64, None, None)
control = _view("control", np.int64, None, CONTROL)
schedule = _view("schedule", np.int64, None, 4)
inject_targets = _view("inject_targets", np.int64, None)
sides = _view("sides", np.uint8, None, None)
cut_pairs = _view("cut_pairs", np.int64, None)
cut_ranges = _view("cut_ranges", np.int64, None, 3)
lost_links = _view("lost_links", np.int32, None, None)
dial_targets = _view("dial_targets", np.int32, None)
dial_starts = _view("dial_starts", np.int64, None)
dial_buckets = _view("dial_buckets", np.uint8, None)


def _world(kind: WorldType) -> Any:
    """Return a kernel that makes a world of a given type from the array that Python passes to an entry."""

    @intrinsic
    def world(_typing: Any, table: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return context.make_array(signature.args[0])(context, builder, arguments[0]).data

        return kind(table), code

    return world


# Types of worlds. The scalars named in a tuple are 0 in the world, so its entry is compiled without what they enable.
WITHOUT_EPISUB = (HAS_EPISUB, HAS_OVERLAY)
WITHOUT_FEATURES = (HAS_FEATURES, PART_WORDS)
WITHOUT_11 = (
    USES_11,
    HAS_SCORES,
    SAMPLES_SCORES,
    USES_12,
    RETAINS,
    HAS_RATINGS,
    HAS_ADDRESSES,
    HAS_DIRECT,
    HAS_GATER,
    HAS_PLACES,
    *WITHOUT_FEATURES,
)
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


@intrinsic
def _words_at(_typing: Any, w: Any, at: Any) -> Any:
    """Return a view of the arena that begins at a word of it; its extent is unknown, and accesses are not checked."""
    kind = ViewType("arena", types.int64, (0,))
    place = SCALARS + _LINE * [name for name, _, _ in _ARRAYS].index("arena")

    def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        address = builder.add(read(builder, arguments[0], place), builder.mul(arguments[1], word(8)))
        return make_view(context, builder, kind, address, [])

    return kind(w, types.int64), code


words_at: Any = _words_at


def _toucher(name: str) -> Any:
    """Return a kernel that prefetches the cache line of an element; its index is that in the flattened array."""
    place, (_, dtype, _) = next((number, each) for number, each in enumerate(_ARRAYS) if each[0] == name)
    at = SCALARS + _LINE * place
    size = np.dtype(dtype).itemsize

    @intrinsic
    def touch(_typing: Any, w: Any, index: Any) -> Any:
        def code(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            address = builder.add(read(builder, arguments[0], at), builder.mul(arguments[1], word(size)))
            line = ir.IntType(8).as_pointer()
            flag = ir.IntType(32)
            prefetch = builder.module.declare_intrinsic(
                "llvm.prefetch", [line], ir.FunctionType(ir.VoidType(), [line, flag, flag, flag])
            )
            builder.call(prefetch, [builder.inttoptr(address, line), flag(0), flag(3), flag(1)])
            return context.get_dummy_value()

        return types.void(w, types.int64), code

    return touch


touch_nodes32 = _toucher("nodes32")
touch_bytes_out = _toucher("bytes_out")
touch_seen = _toucher("seen")
touch_cached = _toucher("cached")
touch_members = _toucher("members")
touch_links32 = _toucher("links32")
touch_links_of = _toucher("links_of")
touch_queued = _toucher("queued")
touch_cells = _toucher("cells")
touch_peers = _toucher("peers")
touch_flags = _toucher("flags")
touch_arena = _toucher("arena")
touch_unwanted = _toucher("unwanted")
touch_known_topics = _toucher("known_topics")


class Arrays:
    """The arrays of a run by name, and the world that points to them."""

    def __init__(self) -> None:
        self.world: World = np.zeros(SCALARS + _LINE * len(_ARRAYS), dtype=np.int64)
        self._places = {name: (place, dtype, extents) for place, (name, dtype, extents) in enumerate(_ARRAYS)}
        self._held: dict[str, NDArray[Any]] = {}
        for name, (_, dtype, extents) in self._places.items():
            self[name] = np.zeros([extent or 1 for extent in extents], dtype)

    def __setitem__(self, name: str, array: NDArray[Any]) -> None:
        place, dtype, extents = self._places[name]
        shape = tuple(extent or found for extent, found in zip(extents, array.shape, strict=True))
        if array.dtype != dtype or array.shape != shape or not array.flags.c_contiguous:
            raise TypeError(f"{name} must be a contiguous array of {dtype} and of shape {extents}")
        self._held[name] = array
        at = SCALARS + _LINE * place
        self.world[at] = array.ctypes.data
        self.world[at + 1 : at + 1 + len(shape)] = shape

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._held[name]

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays, touched or not."""
        return sum(array.nbytes for array in self._held.values())
