"""A file of score parameters in which no check finds anything, and what becomes of it when something is changed."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from hearsay.score_check.check import Checked, check
from hearsay.score_check.subjects import read_subject

CLEAN = """
[expect]
degree = 8
round_trip_ms = 40

[[expect.topics]]
topic = "blocks"
messages_per_s = 1

[[expect.topics]]
topic = "votes"
messages_per_s = 20
count = 4

[score]
decay_interval_ms = 1000
decay_to_zero = 0.01
retain_ms = 600000
topic_cap = 20
application_weight = 1
shared_address_weight = -10
shared_address_threshold = 4
misbehaviour_weight = -10
misbehaviour_decay = 0.95

[score.thresholds]
gossip = -50
publish = -100
graylist = -200
accept_exchange = 15
opportunistic_graft = 5

[[score.topics]]
topic = "blocks"
topic_weight = 1
time_in_mesh_weight = 0.1
time_in_mesh_quantum_ms = 10000
time_in_mesh_cap = 30
first_deliveries_weight = 0.2
first_deliveries_decay = 0.99
first_deliveries_cap = 25
mesh_deliveries_weight = -30
mesh_deliveries_decay = 0.97
mesh_deliveries_cap = 10
mesh_deliveries_threshold = 1.5
mesh_deliveries_window_ms = 10
mesh_deliveries_activation_ms = 30000
mesh_failure_weight = -30
mesh_failure_decay = 0.98
invalid_messages_weight = -100
invalid_messages_decay = 0.999

[[score.topics]]
topic = "votes"
topic_weight = 1
time_in_mesh_weight = 0.1
time_in_mesh_quantum_ms = 10000
time_in_mesh_cap = 30
first_deliveries_weight = 0.01
first_deliveries_decay = 0.99
first_deliveries_cap = 500
mesh_deliveries_weight = -0.075
mesh_deliveries_decay = 0.97
mesh_deliveries_cap = 200
mesh_deliveries_threshold = 30
mesh_deliveries_window_ms = 10
mesh_deliveries_activation_ms = 30000
mesh_failure_weight = -0.075
mesh_failure_decay = 0.98
invalid_messages_weight = -100
invalid_messages_decay = 0.999
"""


def changed(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The document with keys changed, by paths such as `score.topics.0.topic_weight`; None takes a key away."""
    document = tomllib.loads(CLEAN)
    for path, value in changes.items():
        *way, last = path.split(".")
        here: Any = document
        for part in way:
            here = here[int(part)] if part.isdigit() else here[part]
        if isinstance(here, list):
            here.pop(int(last)) if value is None else here.insert(int(last), value)
        elif value is None:
            del here[last]
        else:
            here[last] = value
    return document


def checked(folder: Path, changes: Mapping[str, Any]) -> Checked:
    path = folder / "score.toml"
    path.write_text(tomli_w.dumps(changed(changes)), encoding="utf-8")
    return check(read_subject(path))
