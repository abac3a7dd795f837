"""Scenarios for states that need several rare conditions, so that random scenarios hardly ever reach them."""

from __future__ import annotations

from collections.abc import Iterator

SEEDS = 8

FANOUT = """
warmup_s = 1
linger_s = 1
[network]
nodes = 24
topology = "complete"
[router]
preset = "guide"
degree = 4
degree_low = 2
degree_high = 6
[[topics]]
name = "a"
subscribers_share = 0.5
[workload]
messages = 40
interval_s = 0.1
publishers = "non_subscribers"
publisher_count = 3
[faults]
detection_s = 0.2
redial = 20
[faults.churn]
away_share = 0.4
mean_session_s = 2
"""
"""Publishers outside the topic lose peers of their fan-outs, and get other peers."""

NEWS = """
warmup_s = 1
linger_s = 1
[network]
nodes = 24
degree = 6
[router]
preset = "r1"
degree = 2
degree_low = 1
degree_high = 3
degree_lazy = 8
heartbeat_interval_ms = 100
first_heartbeat_ms = 100
first_heartbeat_spread_ms = 100
graft_on_missing = 2
missing_window_heartbeats = 20
max_ids_per_iwant = 2
[loss]
rate = 0.4
[workload]
messages = 60
interval_s = 0.05
publishers = "any"
[faults]
detection_s = 0.1
redial = 12
[faults.churn]
away_share = 0.2
mean_session_s = 2
"""
"""Messages are lost, so the same peers announce missing messages several times, and leave and return in between."""

BACKOFFS = """
warmup_s = 0
linger_s = 5
[network]
nodes = 16
topology = "complete"
[links]
min_ms = 1
max_ms = 20
[router]
preset = "v1.1"
degree = 2
degree_low = 2
degree_high = 3
heartbeat_interval_ms = 50
first_heartbeat_ms = 50
first_heartbeat_spread_ms = 50
prune_backoff_ms = 3000
unsubscribe_backoff_ms = 200
max_backoff_ms = 300
max_backoffs = 2
[workload]
messages = 3
"""
"""Long and short backoffs exist at the same time, and more than `max_backoffs`."""

MANY_IDS = """
warmup_s = 1
linger_s = 1
[network]
nodes = 24
degree = 6
[router]
preset = "r1"
degree = 2
degree_low = 1
degree_high = 3
degree_lazy = 8
max_ids_per_ihave = 2
max_ids_per_iwant = 1
[[population]]
share = 0.5
router = { kind = "gossipsub", preset = "r1", degree = 2, degree_low = 1, degree_high = 3, degree_lazy = 8 }
[loss]
rate = 0.4
[workload]
messages = 60
interval_s = 0.05
publishers = "any"
"""
"""Some nodes announce and request more ids than other nodes accept."""

REFUSED = """
warmup_s = 1
linger_s = 5
[network]
nodes = 16
degree = 6
[links]
uplink_mbit = 0.02
uplink_queue_bytes = 90
[router]
preset = "v1.1"
degree = 3
degree_low = 2
degree_high = 4
heartbeat_interval_ms = 300
unsubscribe_backoff_ms = 1500
prune_backoff_ms = 2000
[workload]
messages = 30
interval_s = 0.1
size_bytes = 20
publishers = "any"
"""
"""Uplinks refuse SUBSCRIBE, GRAFT and PRUNE, which are sent again."""

SLOW_MESH = """
warmup_s = 1
linger_s = 2
[network]
nodes = 40
degree = 6
[links]
min_ms = 10
max_ms = 900
[router]
preset = "r1"
degree = 2
degree_low = 1
degree_high = 3
degree_lazy = 8
heartbeat_interval_ms = 100
first_heartbeat_ms = 100
first_heartbeat_spread_ms = 100
[workload]
messages = 40
interval_s = 0.05
publishers = "any"
"""
"""Gossip is faster than the mesh. No node leaves, so the array engine only counts sure duplicates."""

FORGETFUL = """
warmup_s = 1
linger_s = 2
[network]
nodes = 12
degree = 2
[links]
min_ms = 10
max_ms = 900
[router]
preset = "r1"
seen_ttl_ms = 700
[workload]
messages = 5
interval_s = 0.3
publishers = "any"
"""
"""Copies travel for longer than ids stay in the seen cache."""

BACKOFFS_OF_MANY_TOPICS = """
warmup_s = 1
linger_s = 2
[network]
nodes = 8
topology = "complete"
[links]
min_ms = 5
max_ms = 100
[router]
preset = "v1.1"
degree = 2
degree_low = 2
degree_high = 2
heartbeat_interval_ms = 50
first_heartbeat_ms = 50
first_heartbeat_spread_ms = 50
prune_backoff_ms = 1000
unsubscribe_backoff_ms = 1
max_backoff_ms = 500
early_graft_ms = 200
backoff_when_not_joined = true
exchange_peers = 3
[router.score]
misbehaviour_weight = -1
misbehaviour_threshold = 2
misbehaviour_decay = 0.1
decay_interval_ms = 1000
decay_to_zero = 0.9
thresholds = { gossip = -100, publish = -200, graylist = -300 }
[[topics]]
name = "topic"
count = 6
[workload]
messages = 20
interval_s = 0.2
publishers = "any"
"""
"""An RPC has GRAFTs of several topics, some in backoff and some for a full mesh, and PRUNEs of topics just left."""

MESHES_BY_SCORE = """
warmup_s = 1
linger_s = 1
[network]
nodes = 20
degree = 5
[links]
min_ms = 5
max_ms = 100
[router]
preset = "v1.1"
full_mesh = "accept"
degree = 3
degree_low = 2
degree_high = 3
degree_score = 1
degree_out = 1
outbound_repair = "to_degree"
heartbeat_interval_ms = 200
flood_publish = true
flood_publish_mbit = 1
opportunistic_graft_ticks = 1
opportunistic_graft_peers = 1
prune_backoff_ms = 0
[router.score]
decay_interval_ms = 1000
decay_to_zero = 0.1
thresholds = { gossip = -100, publish = -200, graylist = -300, opportunistic_graft = 1 }
[[router.score.topics]]
topic = "any"
topic_weight = 1
time_in_mesh_quantum_ms = 1000
invalid_messages_decay = 0.5
first_deliveries_weight = 1
first_deliveries_decay = 0.9
first_deliveries_cap = 10
[workload]
messages = 40
interval_s = 0.1
size_bytes = 3000
publishers = "any"
"""
"""Meshes have too many members, some with low scores. Flooded messages fill an uplink for a heartbeat."""

INVALID = """
warmup_s = 1
linger_s = 0.2
[network]
nodes = 24
degree = 3
[links]
min_ms = 5
max_ms = 200
[validation]
delay_ms = 50
[[validation.invalid]]
share = 0.5
forwards_invalid = true
[[validation.invalid]]
share = 0.1
message_share = 0.5
verdict = "ignore"
[workload]
messages = 20
interval_s = 0.1
publishers = "any"
"""
"""Publishers of invalid messages also forward them, for longer than the window of a delivery."""

REJECTED_COPIES = """
warmup_s = 1
linger_s = 2
[network]
nodes = 16
degree = 5
[validation]
delay_ms = 60
reject_share = 0.3
[links]
min_ms = 5
max_ms = 400
[router]
preset = "v1.1"
degree = 3
degree_low = 2
degree_high = 4
prune_backoff_ms = 0
heartbeat_interval_ms = 50
max_pending_validations = 1
[router.score]
decay_interval_ms = 1000
decay_to_zero = 0.1
delivery_ttl_ms = 100
max_senders_per_delivery = 2
mesh_times = "now"
thresholds = { gossip = -3, publish = -3, graylist = -100 }
[[router.score.topics]]
topic = "any"
topic_weight = 1
time_in_mesh_quantum_ms = 1000
mesh_deliveries_weight = -0.01
mesh_deliveries_decay = 0.5
mesh_deliveries_cap = 20
mesh_deliveries_threshold = 10
mesh_deliveries_window_ms = 1000
mesh_deliveries_activation_ms = 1000
invalid_messages_weight = -0.5
invalid_messages_decay = 0.7
[[population]]
share = 0.4
router = { kind = "floodsub", preset = "r1" }
[scores]
every_s = 0.5
[workload]
messages = 40
interval_s = 0.1
publishers = "script"
inject = 4
"""
"""Several nodes inject the same message, so copies of rejected messages come. Not all messages can be validated."""

ASKED_AGAIN = """
warmup_s = 1
linger_s = 1
[network]
nodes = 16
degree = 4
[links]
min_ms = 50
max_ms = 400
jitter_ms = 60
uplink_mbit = 20
uplink_queue_bytes = 500
[loss]
rate = 0.2
[router]
preset = "v1.1"
degree = 1
degree_low = 1
degree_high = 5
degree_lazy = 8
heartbeat_interval_ms = 40
prune_backoff_ms = 0
seen_ttl_ms = 400
graft_on_missing = 1
max_iwant_messages = 1
iwant_answers_per_id = 10
history_length = 15
history_gossip = 15
[router.score]
slow_peer_weight = -0.01
slow_peer_decay = 0.5
decay_interval_ms = 1000
decay_to_zero = 0.1
mesh_times = "now"
thresholds = { gossip = -100, publish = -200, graylist = -300 }
[[router.score.topics]]
topic = "any"
topic_weight = 1
time_in_mesh_weight = 1
time_in_mesh_quantum_ms = 50
time_in_mesh_cap = 100
mesh_deliveries_weight = -0.01
mesh_deliveries_decay = 0.5
mesh_deliveries_cap = 20
mesh_deliveries_threshold = 10
mesh_deliveries_window_ms = 1000
mesh_deliveries_activation_ms = 1000
invalid_messages_decay = 0.5
[scores]
every_s = 0.2
[workload]
messages = 30
interval_s = 0.03
size_bytes = 50
publishers = "any"
"""
"""Gossip is faster than answers, so peers send messages again, even forgotten ones. Uplinks refuse many at a time."""

UNWANTED = """
warmup_s = 1
linger_s = 2
[network]
nodes = 24
degree = 6
[links]
min_ms = 5
max_ms = 300
[loss]
rate = 0.3
[validation]
delay_ms = 50
[router]
preset = "v1.1"
degree = 4
degree_low = 3
degree_high = 5
degree_lazy = 8
heartbeat_interval_ms = 200
first_heartbeat_ms = 100
first_heartbeat_spread_ms = 100
idontwant_threshold_bytes = 100
idontwant_ttl_heartbeats = 2
max_ids_per_idontwant = 2
max_idontwants = 2
max_idontwant_ids = 3
skip_senders = true
[[population]]
share = 0.15
router = { kind = "floodsub", preset = "r1" }
[[population]]
share = 0.15
router = { preset = "v1.1", idontwant_threshold_bytes = 100, heeds_idontwant = false }
[[population]]
share = 0.15
router = { preset = "v1.1", extensions = true }
[[population]]
share = 0.1
router = { preset = "v1.1" }
[workload]
messages = 48
interval_s = 0.04
size_bytes = 300
publishers = "any"
[faults]
detection_s = 0.1
redial = 12
[faults.churn]
away_share = 0.2
mean_session_s = 2
"""
"""Neighbours that come and go, some with other protocol versions, send more IDONTWANTs than are accepted."""

UNWANTED_AGAIN = """
warmup_s = 1
linger_s = 3
[network]
nodes = 16
degree = 4
[links]
min_ms = 5
max_ms = 600
[validation]
delay_ms = 200
[router]
preset = "v1.1"
degree = 3
degree_low = 2
degree_high = 4
degree_lazy = 8
heartbeat_interval_ms = 300
short_mesh = "top_up"
seen_ttl_ms = 400
idontwant_threshold_bytes = 100
idontwant_ttl_heartbeats = 20
max_unwanted = 9
skip_senders = true
[workload]
messages = 4
interval_s = 0.3
size_bytes = 300
inject = 8
"""
"""Messages return to nodes that have forgotten them, and peers send IDONTWANT for more than `max_unwanted` ids."""

TOPPED_UP = UNWANTED_AGAIN.replace("[validation]", "[loss]\nrate = 0.2\ncontrol = true\n[validation]")
"""A lost GRAFT leaves a mesh link on one side only: the publisher's mesh may lack a peer that sent IDONTWANT."""

WITHDRAWN = """
warmup_s = 1
linger_s = 2
[network]
nodes = 24
degree = 6
[links]
min_ms = 5
max_ms = 100
uplink_mbit = 0.3
uplink_queue_bytes = 9000
[router]
preset = "v1.1"
degree = 4
degree_low = 3
degree_high = 5
degree_lazy = 8
heartbeat_interval_ms = 200
idontwant_threshold_bytes = 100
withdraw_unwanted = true
[workload]
messages = 40
interval_s = 0.1
size_bytes = 700
publishers = "any"
[faults]
detection_s = 0.1
redial = 12
[faults.churn]
away_share = 0.2
mean_session_s = 2
goodbye = true
"""
"""Copies that wait for uplinks are withdrawn, also from RPCs with other parts."""

ACCEPTED_AGAIN = """
warmup_s = 1
linger_s = 2
[network]
nodes = 16
degree = 4
[validation]
delay_ms = 600
[links]
min_ms = 10
max_ms = 900
[router]
preset = "r1"
degree = 4
degree_low = 4
degree_high = 8
seen_ttl_ms = 500
heartbeat_interval_ms = 3000
skip_senders = true
[workload]
messages = 4
interval_s = 0.3
publishers = "any"
"""
"""Between two heartbeats messages are validated, forgotten, and validated again when copies of other peers come."""

UNWANTED_BY_GRAYLISTED = """
warmup_s = 1
linger_s = 1
[network]
nodes = 16
degree = 5
[validation]
delay_ms = 100
reject_share = 0.3
[links]
min_ms = 5
max_ms = 300
[router]
preset = "v1.1"
degree = 6
degree_low = 3
degree_high = 6
degree_lazy = 8
heartbeat_interval_ms = 300
prune_backoff_ms = 0
idontwant_threshold_bytes = 1000
idontwant_on_publish = true
idontwant_ttl_heartbeats = 2
max_ids_per_idontwant = 2
max_idontwants = 3
max_idontwant_ids = 4
max_unwanted = 12
[router.score]
decay_interval_ms = 1000
decay_to_zero = 0.1
thresholds = { gossip = -2, publish = -2, graylist = -2 }
[[router.score.topics]]
topic = "any"
topic_weight = 1
time_in_mesh_quantum_ms = 1000
invalid_messages_weight = -1
invalid_messages_decay = 0.7
[[topics]]
name = "small"
size_bytes = 100
[[topics]]
name = "large"
size_bytes = 1000
[workload]
messages = 80
interval_s = 0.03
publishers = "script"
inject = 4
"""
"""Peers, some of them graylisted, send IDONTWANT for more than `max_unwanted` ids."""

RETAINED = """
warmup_s = 1
linger_s = 3
[network]
nodes = 14
degree = 4
[validation]
delay_ms = 60
reject_share = 0.3
[links]
min_ms = 5
max_ms = 200
[router]
preset = "v1.1"
degree = 3
degree_low = 2
degree_high = 4
prune_backoff_ms = 500
heartbeat_interval_ms = 100
iwant_followup_ms = 300
[router.score]
decay_interval_ms = 1000
decay_to_zero = 0.1
misbehaviour_weight = -0.2
misbehaviour_threshold = 1
misbehaviour_decay = 0.8
retain_ms = 1700
retained_scores = "all"
decay_while_away = false
max_retained_peers = 3
application_weight = 1
shared_address_weight = -0.3
shared_address_threshold = 1
thresholds = { gossip = -5, publish = -5, graylist = -100 }
[[router.score.topics]]
topic = "any"
topic_weight = 1
time_in_mesh_quantum_ms = 1000
first_deliveries_weight = 0.4
first_deliveries_decay = 0.9
first_deliveries_cap = 20
invalid_messages_weight = -0.2
invalid_messages_decay = 0.7
[[ratings]]
rating = 1
share = 0.4
[addresses]
nodes_per_address = 4
form = "ipv6_prefix"
[scores]
every_s = 0.2
[workload]
messages = 40
interval_s = 0.1
publishers = "any"
[faults]
detection_s = 0.1
redial = 12
[faults.churn]
away_share = 0.3
mean_session_s = 1.5
"""
"""Peers return soon, but the scores of only three disconnected peers are retained."""

RETAINED_IF_BAD = RETAINED
for _old, _new in (
    ("linger_s = 3", "linger_s = 1"),
    ("nodes = 14", "nodes = 36"),
    ("delay_ms = 60", "delay_ms = 300"),
    ('retained_scores = "all"', 'retained_scores = "not-positive"'),
    ("decay_while_away = false", "decay_while_away = true"),
    ("max_retained_peers = 3", "max_retained_peers = 100"),
    ("messages = 40\ninterval_s = 0.1", "messages = 6\ninterval_s = 0.4"),
):
    RETAINED_IF_BAD = RETAINED_IF_BAD.replace(_old, _new)
"""Only scores of 0 or less are retained, and they decay meanwhile."""

GRAYLISTED = """
warmup_s = 1
linger_s = 2
[network]
nodes = 16
degree = 5
[validation]
delay_ms = 20
reject_share = 0.5
[links]
min_ms = 5
max_ms = 900
[router]
preset = "v1.1"
degree = 4
degree_low = 3
degree_high = 6
heartbeat_interval_ms = 400
idontwant_threshold_bytes = 100
idontwant_on_publish = true
skip_senders = true
[router.score]
decay_interval_ms = 1000
decay_to_zero = 0.1
thresholds = { gossip = -0.1, publish = -0.2, graylist = -0.3 }
[[router.score.topics]]
topic = "any"
topic_weight = 1
time_in_mesh_quantum_ms = 1000
invalid_messages_weight = -0.4
invalid_messages_decay = 0.9
[[population]]
share = 0.3
router = { kind = "floodsub", preset = "r1" }
[workload]
messages = 40
interval_s = 0.1
size_bytes = 300
publishers = "any"
"""
"""Peers send IDONTWANT and copies to nodes that have just graylisted them."""

EXCHANGED = """
warmup_s = 3
linger_s = 1
[network]
nodes = 30
topology = "scale_free"
degree = 1
nat_share = 0.1
[links]
min_ms = 200
max_ms = 500
[router]
preset = "v1.1"
degree = 2
degree_low = 1
degree_high = 2
degree_score = 0
degree_out = 0
heartbeat_interval_ms = 200
first_heartbeat_ms = 1000
first_heartbeat_spread_ms = 50
prune_backoff_ms = 300
exchange_peers = 12
accept_exchange = true
exchange_dials = 6
[[population]]
share = 0.3
[population.router]
preset = "r1"
degree = 1
degree_low = 1
degree_high = 2
heartbeat_interval_ms = 200
prune_backoff_ms = 500
exchange_peers = 3
accept_exchange = true
exchange_dials = 2
[[topics]]
count = 24
[workload]
messages = 4
interval_s = 0.2
[faults]
detection_s = 0.1
redial = 2
[faults.churn]
away_share = 0.2
mean_session_s = 2
"""
"""PRUNEs of many topics name many peers, so dials reach their limits; some are refused, and some end too late."""

DIRECT = """
warmup_s = 2
linger_s = 2
[network]
nodes = 16
degree = 4
nat_share = 0.2
[links]
min_ms = 20
max_ms = 300
[loss]
rate = 0.1
[validation]
delay_ms = 60
reject_share = 0.3
[router]
preset = "hardening"
degree = 3
degree_low = 2
degree_high = 4
degree_score = 1
degree_out = 1
heartbeat_interval_ms = 200
first_heartbeat_ms = 100
first_heartbeat_spread_ms = 100
idontwant_threshold_bytes = 100
flood_publish = true
direct_connect_ticks = 3
direct_graft = "penalise"
direct_peers = [[0, 1], [2, 0], [1, 2], [3, 4], [5, 6], [0, 5], [9, 0]]
score.misbehaviour_weight = -0.6
score.misbehaviour_threshold = 0
score.misbehaviour_decay = 0.9
score.decay_to_zero = 0.1
score.decay_interval_ms = 1000
score.thresholds = { gossip = -0.5, publish = -1, graylist = -3 }
[[population]]
share = 0.3
[population.router]
preset = "v1.1"
direct_connect_ticks = 2
direct_graft = "ignore"
direct_peers = [[0, 7], [8, 10]]
heartbeat_interval_ms = 200
first_heartbeat_ms = 100
first_heartbeat_spread_ms = 100
max_ihave_messages = 1
[[population]]
share = 0.3
[population.router]
preset = "v1.1"
heartbeat_interval_ms = 200
first_heartbeat_ms = 100
first_heartbeat_spread_ms = 100
[scores]
every_s = 0.5
[workload]
messages = 40
interval_s = 0.1
size_bytes = 300
publishers = "any"
[faults]
detection_s = 0.2
redial = 1
[faults.churn]
away_share = 0.3
mean_session_s = 2
[[faults.cut]]
at_s = 2
heal_s = 3
links = [[0, 1], [3, 4]]
"""
"""Direct peers leave and are dialled again; some are graylisted, and only one side of some pairs knows the other."""

GATED = """
warmup_s = 1
linger_s = 2
[network]
nodes = 16
degree = 5
[addresses]
nodes_per_address = 3
[validation]
delay_ms = 120
reject_share = 0.2
[router]
preset = "v1.1"
degree = 4
degree_low = 3
degree_high = 6
heartbeat_interval_ms = 400
direct_peers = [[0, 1], [4, 9]]
direct_connect_ticks = 3
max_pending_validations = 2
iwant_followup_ms = 300
max_ids_per_ihave = 5
[router.gater]
threshold = 0.3
global_decay = 0.9
source_decay = 0.7
decay_interval_ms = 1000
decay_to_zero = 0.4
quiet_ms = 1000
retain_ms = 1500
duplicate_weight = 0.4
ignore_weight = 1
reject_weight = 5
max_retained_addresses = 2
[router.score]
decay_interval_ms = 1500
decay_to_zero = 0.1
thresholds = { gossip = -10, publish = -20, graylist = -30 }
misbehaviour_weight = -0.1
misbehaviour_decay = 0.9
[[router.score.topics]]
topic = "b"
topic_weight = 1
time_in_mesh_quantum_ms = 1000
invalid_messages_decay = 0.5
gater_weight = 3
[[topics]]
name = "a"
[[topics]]
name = "b"
[workload]
messages = 40
interval_s = 0.1
publishers = "any"
"""
"""More messages come than can be validated, so the gater refuses some by the history of their senders' addresses."""

GATED_RETURNING = GATED
for _old, _new in (
    (GATED[GATED.index("[router.score]") : GATED.index("[[topics]]")], ""),
    ("nodes = 16", "nodes = 12"),
    ("nodes_per_address = 3", "shared = [[1, 2, 5, 7, 9, 11], [3, 6]]"),
    ("retain_ms = 1500", "retain_ms = 1200"),
    ("messages = 40\ninterval_s = 0.1", "messages = 70\ninterval_s = 0.1\npublisher_count = 4"),
):
    GATED_RETURNING = GATED_RETURNING.replace(_old, _new)
GATED_RETURNING += """
[faults]
detection_s = 0.2
redial = 6
[faults.churn]
away_share = 0.3
mean_session_s = 2
"""
"""Peers return, and the gater has kept or forgotten the counts of their addresses; there are no scores."""


PLACES = """
warmup_s = 1
linger_s = 1
[network]
nodes = 24
degree = 6
[addresses]
nodes_per_address = 4
shared = [[0, 9, 14, 22]]
[links]
min_ms = 5
max_ms = 60
[router]
preset = "r1"
degree = 4
degree_low = 3
degree_high = 5
full_mesh = "refuse"
places_per_address = 1
heartbeat_interval_ms = 200
first_heartbeat_ms = 100
prune_backoff_ms = 300
[[population]]
share = 0.4
router = { kind = "meshsub", places_per_address = 2, degree = 3, degree_low = 2, degree_high = 4 }
[[topics]]
name = "a"
subscribers_share = 0.5
[[topics]]
name = "b"
[workload]
messages = 20
interval_s = 0.15
publishers = "any"
[faults.churn]
away_share = 0.2
mean_session_s = 1.5
"""
"""Nodes at one address compete for places in meshes and fan-outs."""

PLACES_BY_SCORES = PLACES.replace(
    'preset = "r1"\ndegree = 4',
    'preset = "v1.1"\nflood_publish = false\ndegree_out = 1\ndegree_score = 1\ndegree = 4',
)
"""The same with scores: the members with the best scores stay."""


BYTES = """
warmup_s = 1
linger_s = 1
[network]
nodes = 16
degree = 5
[links]
min_ms = 5
max_ms = 300
[router]
preset = "r1"
degree = 3
degree_low = 2
degree_high = 4
degree_lazy = 8
heartbeat_interval_ms = 300
first_heartbeat_ms = 100
first_heartbeat_spread_ms = 100
max_cached_bytes = 3000
max_seen_bytes = 3000
max_subscription_bytes_per_peer = 515
max_subscription_bytes = 3000
[[population]]
share = 0.3
router = { preset = "r1", max_subscription_bytes_per_peer = 344, max_cached_bytes = 1500, max_seen_bytes = 2000 }
[[topics]]
name = "a"
[[topics]]
name = "b"
size_bytes = 900
subscribers_share = 0.6
[[topics]]
name = "c10"
subscribers_share = 0.6
[[topics]]
name = "d"
subscribers_share = 0.6
[loss]
rate = 0.2
[workload]
messages = 40
interval_s = 0.1
publishers = "any"
"""
"""Messages, ids and subscriptions exceed the limits in bytes."""

FEW_RECORDS = REJECTED_COPIES.replace("max_senders_per_delivery = 2", "max_deliveries = 3").replace(
    "inject = 4", "inject = 6"
)
"""Nodes forget records of deliveries of which copies still come."""

FILTERED = """
warmup_s = 1
linger_s = 3
[network]
nodes = 16
degree = 6
[links]
uplink_mbit = 0.02
uplink_queue_bytes = 330
[router]
preset = "v1.1"
degree = 3
degree_low = 2
degree_high = 4
heartbeat_interval_ms = 2000
allowed_topics = ["news", "s*"]
max_subscriptions_per_peer = 1
[[population]]
share = 0.5
router = { preset = "v1.1", heartbeat_interval_ms = 2000, allowed_topics = ["sport", "chat", "film"] }
[[topics]]
name = "news"
[[topics]]
name = "sport"
[[topics]]
name = "chat"
subscribers_share = 0.5
[[topics]]
name = "film"
subscribers_share = 0.5
[workload]
messages = 20
interval_s = 0.1
size_bytes = 20
publishers = "subscribers"
"""
"""Each router accepts only some topics. Uplinks refuse SUBSCRIBE, which is sent again."""

FILTERED_ALONE = FILTERED.replace("uplink_mbit = 0.02\nuplink_queue_bytes = 330", "max_ms = 300")
for _name in ("news", "sport"):
    FILTERED_ALONE = FILTERED_ALONE.replace(f'"{_name}"\n', f'"{_name}"\nsubscribers_share = 0.4\n')
"""Uplinks refuse nothing, so most subscriptions have their own RPC."""

EXCHANGED_UNDER_LOSS = """
warmup_s = 0
[network]
nodes = 60
[loss]
rate = 0.3
[router]
preset = "hardening"
degree = 3
degree_low = 2
degree_high = 4
degree_score = 0
degree_out = 0
exchange_peers = 3
[workload]
messages = 20
interval_s = 0.1
"""
"""PRUNEs that name peers are sent together with IHAVEs that are lost."""

_RATINGS = """score.application_weight = 1
score.decay_interval_ms = 1000
score.decay_to_zero = 0.1
score.thresholds = { accept_exchange = 0.5 }
[[ratings]]
rating = 1
share = 0.5
[[population]]"""
TRUSTED = EXCHANGED.replace("[[population]]", _RATINGS).replace("exchange_dials = 6", "exchange_dials = 1")
"""Some senders of PRUNE with peers have a score of at least `accept_exchange`, and others do not."""

CROWDED = """
warmup_s = 7
linger_s = 1
[network]
nodes = 24
topology = "scale_free"
degree = 1
[links]
min_ms = 1
max_ms = 4000
[router]
preset = "v1.1"
degree = 1
degree_low = 1
degree_high = 1
heartbeat_interval_ms = 100
first_heartbeat_ms = 1000
first_heartbeat_spread_ms = 100
prune_backoff_ms = 100
exchange_peers = 23
accept_exchange = true
[[topics]]
count = 16
[workload]
messages = 1
"""
"""A node with most connections refuses GRAFTs in all topics, and names more peers than their senders may dial."""

UNREACHABLE = f"""
warmup_s = 5
linger_s = 2
[network]
nodes = 10
degree = 2
nat_share = 0.7
[links]
min_ms = 2000
max_ms = 5000
[router]
preset = "v1.1"
heartbeat_interval_ms = 50
first_heartbeat_ms = 100
direct_connect_ticks = 1
direct_peers = {[[one, other] for one in range(10) for other in range(one)]}
[workload]
messages = 2
"""
"""Direct peers that accept no connections are dialled at each heartbeat, up to the limit of a node's dials."""

TREES = """
warmup_s = 1
linger_s = 2
[network]
nodes = 14
degree = 3
[validation]
delay_ms = 70
reject_share = 0.1
[router]
kind = "episub"
preset = "episub-single-source"
overlay = "connections"
optimisation_threshold = 1
flush_ms = 40
announce_recent_ms = 300
missing_tick_ms = 60
graft_attempts = 3
payload_ttl_ms = 500
max_announcers = 2
max_ids_per_part = 4
graft_answers_per_id = 1
max_missing = 4
max_cached_messages = 6
[[topics]]
name = "a"
[workload]
messages = 60
interval_s = 0.04
publishers = "any"
[loss]
rate = 0.4
control = true
[trace]
state_interval_s = 1
"""
"""Links lose many messages, which are requested from several announcers, sometimes without an answer."""

TREES_WITH_CHURN = TREES.replace("rate = 0.4", "rate = 0.1").replace(
    "[loss]",
    "[faults]\ndetection_s = 0.3\nredial = 4\n[faults.churn]\naway_share = 0.3\nmean_session_s = 0.7\n[loss]",
)
"""Nodes of trees come and go, some for only a moment."""

TREES_WITHOUT_NEIGHBOURS = TREES_WITH_CHURN.replace("nodes = 14\ndegree = 3", "nodes = 4\ndegree = 1").replace(
    "announce_recent_ms = 300", "announce_recent_ms = 0"
)
"""Nodes lose their last neighbour with messages to announce, and get another one."""

FORGETFUL_TREES = """
warmup_s = 1
linger_s = 2
[network]
nodes = 10
degree = 2
[links]
min_ms = 5
max_ms = 30
[service]
time_ms = 5
[router]
kind = "episub"
preset = "episub-single-source"
overlay = "connections"
seen_ttl_ms = 200
flush_ms = 100
announce_recent_ms = 3000
missing_tick_ms = 100
graft_attempts = 30
payload_ttl_ms = 3000
max_ids_per_part = 3
graft_answers_per_id = 1
max_announcers = 3
max_cached_bytes = 3000
[[population]]
share = 0.3
[population.router]
kind = "episub"
preset = "episub-single-source"
overlay = "connections"
flush_ms = 300
announce_recent_ms = 0
missing_tick_ms = 1000
graft_answers_per_id = 1
[[topics]]
name = "a"
[workload]
messages = 40
interval_s = 0.2
size_bytes = 100
publishers = "any"
[loss]
rate = 0.1
control = true
[faults]
detection_s = 0.05
redial = 4
[faults.churn]
away_share = 0.3
mean_session_s = 1
"""
"""Most nodes forget messages that still travel, and keep, announce and request them again. Nodes are away only for
a moment, so timers of their earlier life are still to come."""

TREES_AND_FLOODING = TREES.replace("rate = 0.4", "rate = 0.15").replace(
    "[[topics]]",
    '[[population]]\nshare = 0.3\nrouter = { kind = "gossipsub", preset = "r1" }\n'
    '[[population]]\nshare = 0.3\nrouter = { kind = "episub", preset = "episub-single-source", '
    'overlay = "connections", broadcast = "flood", seen_ttl_ms = 300 }\n[[topics]]',
)
"""Trees among nodes that flood, so hops in messages are not those from the publisher."""

OVERLAYS = """
warmup_s = 3
linger_s = 2
[network]
nodes = 14
nat_share = 0.1
[router]
kind = "episub"
random_links = 2
near_links = 1
active_limit = 4
passive_size = 4
join_ttl = 2
passive_ttl = 1
reply_timeout_ms = 400
stabilise_min_ms = 100
stabilise_max_ms = 300
shuffle_interval_ms = 300
shuffle_ttl = 2
shuffle_active = 1
shuffle_passive = 2
probe_interval_ms = 300
probe_count = 2
contacts_interval_ms = 1000
idle_ms = 300
max_dials = 4
[[topics]]
name = "a"
[workload]
messages = 12
interval_s = 0.15
publishers = "any"
[faults]
detection_s = 0.6
[faults.churn]
away_share = 0.3
mean_session_s = 1
"""
"""A few nodes with small active and passive lists come and go, so they connect to each other repeatedly."""

HYPARVIEWS = OVERLAYS.replace(
    "random_links = 2\nnear_links = 1\nactive_limit = 4", 'overlay = "hyparview"\nrandom_links = 3\nnear_links = 0'
)

ESTIMATED = OVERLAYS.replace("passive_size = 4", 'view_sizes = "estimated"\nsize_constant = 1\npassive_factor = 2')

OVERLAYS_ON_BAD_LINKS = OVERLAYS
for _old, _new in (
    ("[router]", "[links]\njitter_ms = 20\nuplink_mbit = 0.05\nuplink_queue_bytes = 400\n[router]"),
    ('name = "a"', "count = 3"),
    ("[workload]", "[loss]\nrate = 0.1\ncontrol = true\n[workload]"),
    ("[[topics]]", '[[population]]\nshare = 0.2\nrouter = { kind = "floodsub", preset = "r1" }\n[[topics]]'),
):
    OVERLAYS_ON_BAD_LINKS = OVERLAYS_ON_BAD_LINKS.replace(_old, _new)
"""Several topics have floodsub nodes. Round-trip times vary, parts are lost, and uplinks refuse some parts."""

SKETCHES = """
warmup_s = 1
linger_s = 2
[network]
nodes = 40
[links]
min_ms = 1
max_ms = 5
[router]
kind = "episub"
view_sizes = "estimated"
size_constant = 1
passive_factor = 2
join_ttl = 2
passive_ttl = 1
stabilise_min_ms = 9000
stabilise_max_ms = 9000
shuffle_interval_ms = 50
shuffle_ttl = 0
shuffle_active = 1
shuffle_passive = 2
probe_count = 0
contacts_interval_ms = 0
[workload]
messages = 1
[faults]
detection_s = 9
[[faults.crash]]
at_s = 0.35
share = 0.9
"""
"""Sketches are full when most nodes crash. The others do not notice the crash, so all entries of their sketches
expire."""

IN_PARTS = """
warmup_s = 1
linger_s = 3
[network]
nodes = 14
degree = 3
[links]
min_ms = 20
max_ms = 90
[router]
preset = "go"
degree = 3
degree_low = 2
degree_high = 4
degree_out = 0
degree_score = 0
heartbeat_interval_ms = 200
partial_messages = true
partial_group_heartbeats = 4
max_peer_groups = 3
max_groups_per_peer = 2
supporters_told = "by_all"
idontwant_threshold_bytes = 1000
score.decay_interval_ms = 1000
score.decay_to_zero = 0.1
score.topics = [{ topic = "any", topic_weight = 1, time_in_mesh_quantum_ms = 1000, invalid_messages_decay = 0.5, \
first_deliveries_weight = 1, first_deliveries_decay = 0.5, first_deliveries_cap = 3 }]
[[population]]
share = 0.2
router = { kind = "gossipsub", preset = "go", partial_messages = true, max_metadata_bytes = 8, degree_out = 0 }
[[population]]
share = 0.15
router = { kind = "gossipsub", preset = "rust", degree_out = 0 }
[[topics]]
name = "topic"
partial.parts = 70
partial.known_parts = 3
[[topics]]
name = "eager"
partial.parts = 5
partial.eager = true
[[topics]]
name = "one"
partial.parts = 9
partial.asks = "one"
[[topics]]
name = "supported"
partial.parts = 4
partial.use = "supports"
[workload]
messages = 20
interval_s = 0.15
publishers = "subscribers"
size_bytes = 3000
topic_choice = "random"
[loss]
rate = 0.15
[scores]
every_s = 1
"""
"""Messages are sent in parts, some of which are lost. Some nodes have no partial messages."""

PARTS_AND_FAULTS = """
warmup_s = 1
linger_s = 3
[network]
nodes = 12
degree = 4
[links]
uplink_mbit = 0.4
uplink_queue_bytes = 6000
jitter_ms = 15
[router]
preset = "r1"
heartbeat_interval_ms = 150
degree = 2
degree_low = 1
degree_high = 3
partial_messages = true
partial_group_heartbeats = 2
max_peer_groups = 4
max_groups_per_peer = 1
max_metadata_bytes = 12
[[topics]]
name = "topic"
partial.parts = 6
partial.asks = "one"
[[topics]]
name = "b"
subscribers_share = 0.6
partial.parts = 3
partial.known_parts = 1
[workload]
messages = 24
interval_s = 0.12
publishers = "any"
size_bytes = 900
[loss]
rate = 0.1
[faults]
detection_s = 0.2
redial = 6
[faults.churn]
away_share = 0.25
mean_session_s = 2
"""
"""Nodes leave topics, or leave the network and return, while parts travel. Uplinks refuse some parts."""

EXTENSIONS = """
warmup_s = 1
linger_s = 2
[network]
nodes = 10
degree = 3
[links]
min_ms = 5
max_ms = 60
uplink_mbit = 0.05
uplink_queue_bytes = 3000
[router]
preset = "rust"
degree_out = 0
degree_score = 0
heartbeat_interval_ms = 100
partial_messages = true
test_extension = true
idontwant_threshold_bytes = 100
max_control_per_rpc = 2
[[population]]
share = 0.3
router = { kind = "gossipsub", preset = "go", test_extension = true, late_extensions = "ignore", degree_out = 0 }
[[topics]]
name = "topic"
size_bytes = 500
partial.parts = 4
[[topics]]
name = "whole"
size_bytes = 500
[workload]
messages = 30
interval_s = 0.1
publishers = "subscribers"
topic_choice = "random"
[scores]
every_s = 0.5
[faults]
detection_s = 0.2
redial = 6
[faults.churn]
away_share = 0.3
mean_session_s = 1
"""
"""IDONTWANT overtakes first RPCs, so the extensions control comes late."""
LATE_EXTENSIONS = EXTENSIONS.replace("[router]", '[router]\nlate_extensions = "penalise"')
"""The same, but a late extensions control lowers the score."""
UNSENT_EXTENSIONS = EXTENSIONS.replace("bytes = 3000", "bytes = 330").replace("size_bytes = 500", "size_bytes = 120")
"""The same, but uplinks refuse first RPCs."""

SCORED_MESHES = """
warmup_s = 1
linger_s = 1
[network]
nodes = 16
degree = 6
[links]
min_ms = 5
max_ms = 60
[router]
preset = "v1.1"
degree = 2
degree_low = 2
degree_high = 3
degree_score = 0
degree_out = 1
heartbeat_interval_ms = 100
first_heartbeat_ms = 100
first_heartbeat_spread_ms = 50
prune_backoff_ms = 1000
max_backoff_ms = 200
graft_flood_ms = 500
outbound_when_full = "quota"
exchange_peers = 4
accept_exchange = true
exchange_dials = 2
opportunistic_graft_ticks = 2
opportunistic_graft_peers = 1
median = "mean"
[router.score]
decay_interval_ms = 1000
decay_to_zero = 0.1
topic_cap = 3
deficit_after_prune = true
second_prune_counts = true
misbehaviour_weight = -1
misbehaviour_decay = 0.5
thresholds = { accept_exchange = 0, gossip = -100, publish = -200, graylist = -300, opportunistic_graft = 2 }
[[router.score.topics]]
topic = "any"
topic_weight = 1
time_in_mesh_quantum_ms = 1000
mesh_deliveries_weight = -0.5
mesh_deliveries_decay = 0.5
mesh_deliveries_cap = 2
mesh_deliveries_threshold = 2
mesh_deliveries_window_ms = 50
mesh_deliveries_activation_ms = 1000
mesh_failure_weight = -1
mesh_failure_decay = 0.5
first_deliveries_weight = 1
first_deliveries_decay = 0.9
first_deliveries_cap = 10
invalid_messages_decay = 0.5
[[population]]
share = 0.4
[population.router]
preset = "v1.1"
degree = 2
degree_low = 2
degree_high = 4
degree_out = 0
heartbeat_interval_ms = 100
prune_backoff_ms = 200
max_backoff_ms = 200
[[topics]]
count = 3
[scores]
every_s = 0.5
[workload]
messages = 40
interval_s = 0.1
publishers = "any"
""" + "".join(
    f'[[timed]]\nat_s = {4.05 + node * 0.1 + again * 0.9:.2f}\nnode = {node}\naction = "{action}"\n'
    f'topic = "topic-{node % 3}"\n'
    for node in range(8)
    for again, action in enumerate(("leave", "join"))
)
"""Counters have low caps. The median score and the quota of outbound peers decide about meshes. Members with too few
deliveries leave."""
EARLY_GRAFTS = (
    SCORED_MESHES.replace("misbehaviour_weight = -1", "misbehaviour_weight = -100")
    .replace("misbehaviour_decay = 0.5", "misbehaviour_decay = 0.1")
    .replace("count = 3", "count = 6")
    .replace("prune_backoff_ms = 200\nmax_backoff_ms = 200", "prune_backoff_ms = 100\nmax_backoff_ms = 100")
)
"""One RPC has GRAFTs of several topics, and the first of them makes the sender's score negative."""
FAILED_MEMBERS = (
    SCORED_MESHES.replace('outbound_when_full = "quota"', 'full_mesh = "accept"')
    .replace("degree_out = 1", "degree_out = 0")
    .replace("nodes = 16\ndegree = 6", "nodes = 24\ndegree = 2")
    .replace("mesh_deliveries_weight = -0.5", "mesh_deliveries_weight = -0.01")
    .replace("mesh_failure_weight = -1", "mesh_failure_weight = -20")
    .replace("first_deliveries_weight = 1", "first_deliveries_weight = 0.1")
    .replace("exchange_dials = 2", "exchange_dials = 1")
    .replace("share = 0.4", "share = 0.3")
    .replace("count = 3", "count = 6")
    .replace("messages = 40\ninterval_s = 0.1", "messages = 15\ninterval_s = 0.2")
    .replace("prune_backoff_ms = 1000\nmax_backoff_ms = 200", "prune_backoff_ms = 100\nmax_backoff_ms = 100")
)
"""One RPC has PRUNEs of several topics with names, and the first of them makes the sender's score negative."""
BRIEF_FANOUTS = """
warmup_s = 1
linger_s = 1
[network]
nodes = 16
topology = "complete"
[router]
preset = "r1"
degree = 3
degree_low = 2
degree_high = 4
fanout_ttl_ms = 300
fanout_top_up = "publish"
heartbeat_interval_ms = 100
[[topics]]
name = "a"
subscribers_share = 0.6
[workload]
messages = 12
interval_s = 0.5
publishers = "non_subscribers"
publisher_count = 2
"""
"""Publishers outside the topic forget their fan-outs between two messages."""

_WITH_LEAVES = (
    ("a", TREES),
    ("a", TREES_WITH_CHURN),
    ("a", TREES_AND_FLOODING),
    ("a", OVERLAYS),
    ("a", HYPARVIEWS),
    ("a", ESTIMATED),
    ("a", FANOUT),
    ("topic", NEWS),
    ("topic", BACKOFFS),
    ("topic", MANY_IDS),
    ("topic", REFUSED),
    ("topic", UNWANTED),
    ("topic", WITHDRAWN),
    ("topic-0", BACKOFFS_OF_MANY_TOPICS),
    ("topic-0", EXCHANGED),
    ("topic", DIRECT),
    ("a", PLACES),
    ("a", PLACES_BY_SCORES),
    ("a", BYTES),
    ("sport", FILTERED),
    ("sport", FILTERED_ALONE),
    ("topic", PARTS_AND_FAULTS),
)
_WITHOUT_LEAVES = (
    SLOW_MESH,
    FORGETFUL,
    MESHES_BY_SCORE,
    REJECTED_COPIES,
    ASKED_AGAIN,
    UNWANTED_AGAIN,
    TRUSTED,
    EXCHANGED_UNDER_LOSS,
    CROWDED,
    UNREACHABLE,
    TOPPED_UP,
    ACCEPTED_AGAIN,
    UNWANTED_BY_GRAYLISTED,
    RETAINED,
    RETAINED_IF_BAD,
    GRAYLISTED,
    GATED,
    GATED_RETURNING,
    PLACES,
    FEW_RECORDS,
    INVALID,
    TREES,
    TREES_WITHOUT_NEIGHBOURS,
    FORGETFUL_TREES,
    OVERLAYS,
    HYPARVIEWS,
    ESTIMATED,
    OVERLAYS_ON_BAD_LINKS,
    SKETCHES,
    IN_PARTS,
    EXTENSIONS,
    LATE_EXTENSIONS,
    UNSENT_EXTENSIONS,
    SCORED_MESHES,
    EARLY_GRAFTS,
    FAILED_MEMBERS,
    BRIEF_FANOUTS,
)
CORNERS = len(_WITH_LEAVES) + len(_WITHOUT_LEAVES)
"""Number of scenarios for each seed."""


def corner_scenarios() -> Iterator[str]:
    """Yield all scenarios for each seed. In those of `_WITH_LEAVES`, nodes also leave a topic and join it again."""
    for seed in range(1, SEEDS + 1):
        for topic, text in _WITH_LEAVES:
            yield f"seed = {seed}\n{text}" + "".join(_leaves_and_joins(seed, topic))
        yield from (f"seed = {seed}\n{text}" for text in _WITHOUT_LEAVES)


def _leaves_and_joins(seed: int, topic: str) -> Iterator[str]:
    for step in range(96):
        action = ("leave", "join")[step // 8 % 2]
        at_s = f"{1 + step // 8 * 0.35 + seed * 0.011:.3f}"
        yield f'[[timed]]\nat_s = {at_s}\nnode = {step % 8}\naction = "{action}"\ntopic = "{topic}"\n'
