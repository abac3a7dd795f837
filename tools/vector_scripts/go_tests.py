"""Go's tests of scores, with their numbers (score_test.go of go-libp2p-pubsub v0.16.0)."""

from __future__ import annotations

from collections.abc import Iterator

from vector_scripts.score_script import MS, NO_DECAY, SECOND, TOPIC, ScoreScript


def scripts() -> Iterator[ScoreScript]:
    yield time_in_mesh("time-in-mesh", 3600, 200)
    yield time_in_mesh("time-in-mesh-cap", 10, 40)
    yield first_deliveries("first-deliveries", 2000, 1, 1)
    yield first_deliveries("first-deliveries-cap", 50, 1, 1)
    yield first_deliveries("first-deliveries-decay", 2000, 0.9, 11)
    yield mesh_deliveries()
    yield mesh_deliveries_decay()
    yield mesh_failure()
    yield invalid("invalid-messages", 1, 1)
    yield invalid("invalid-messages-decay", 0.9, 11)
    yield rejections()
    yield application()
    yield from shared_addresses()
    yield misbehaviour()
    yield retention()
    yield smaller_caps()
    yield other_weights()


def time_in_mesh(name: str, cap: int, ms: int) -> ScoreScript:
    topic = {"TopicWeight": 0.5, "TimeInMeshWeight": 1, "TimeInMeshQuantum": MS, "TimeInMeshCap": cap}
    script = ScoreScript(name, "Quanta in the mesh count up to the cap.", "A", topic, specification="v1.1, P₁")
    script.connect("A")
    script.graft("A")
    script.at = ms * MS
    script.refresh()
    return script


def first_deliveries(name: str, cap: int, decay: float, refreshes: int) -> ScoreScript:
    own = {"FirstMessageDeliveriesWeight": 1, "FirstMessageDeliveriesCap": cap, "FirstMessageDeliveriesDecay": decay}
    script = ScoreScript(
        name, "A hundred first deliveries, up to the cap, and their decay.", "A", own, specification="v1.1, P₂"
    )
    script.connect("A")
    script.graft("A")
    script.deliver_first("A", 100)
    script.refresh(refreshes)
    return script


MESH = {"MeshMessageDeliveriesWeight": -1, "MeshMessageDeliveriesThreshold": 20, "MeshMessageDeliveriesCap": 100}


def mesh_deliveries() -> ScoreScript:
    own = {**MESH, "MeshMessageDeliveriesActivation": SECOND, "MeshMessageDeliveriesWindow": 10 * MS}
    script = ScoreScript(
        "mesh-deliveries",
        "A delivers first, B sends copies before the verdict, C after the window: C has a deficit after activation.",
        "ABC",
        own,
        specification="v1.1, P₃",
    )
    script.connect(*"ABC")
    script.graft(*"ABC")
    script.at = SECOND
    script.refresh()
    for number in range(100):
        script.at = SECOND + number * MS
        script.validate(f"m{number}")
        script.duplicate("B", f"m{number}")
        script.deliver("A", f"m{number}")
    for number in range(100):
        script.at = SECOND + (200 + number) * MS
        script.duplicate("C", f"m{number}")
    script.refresh()
    return script


def mesh_deliveries_decay() -> ScoreScript:
    own = {**MESH, "MeshMessageDeliveriesDecay": 0.9, "MeshMessageDeliveriesWindow": 10 * MS}
    script = ScoreScript(
        "mesh-deliveries-decay",
        "Forty deliveries are enough until they decay below the threshold.",
        "A",
        own,
        specification="v1.1, P₃",
    )
    script.connect("A")
    script.graft("A")
    script.deliver_first("A", 40)
    script.at = MS
    script.refresh(21)
    return script


def mesh_failure() -> ScoreScript:
    own = {
        **MESH,
        "MeshMessageDeliveriesWeight": 0,
        "MeshFailurePenaltyWeight": -1,
        "MeshFailurePenaltyDecay": 1,
    }
    script = ScoreScript(
        "mesh-failure", "A peer that is pruned with a deficit gets P₃ᵦ.", "AB", own, specification="v1.1, P₃ᵦ"
    )
    script.connect(*"AB")
    script.graft(*"AB")
    script.deliver_first("A", 100)
    script.at = MS
    script.refresh()
    script.prune(*"AB")
    script.at = 2 * MS
    script.refresh()
    return script


def invalid(name: str, decay: float, refreshes: int) -> ScoreScript:
    own = {"InvalidMessageDeliveriesWeight": -1, "InvalidMessageDeliveriesDecay": decay}
    script = ScoreScript(name, "A hundred messages with invalid signatures.", "A", own, specification="v1.1, P₄")
    script.connect("A")
    script.graft("A")
    for number in range(100):
        script.reject("A", f"m{number}", "invalid_signature")
    script.refresh(refreshes)
    return script


def rejections() -> ScoreScript:
    script = ScoreScript(
        "rejections",
        "A full queue, throttling, and a message that the application ignores count against no peer. A message that "
        "fails validation counts against all its senders, also those of copies before and after the verdict.",
        "AB",
        {"InvalidMessageDeliveriesWeight": -1},
        specification="v1.1, P₄",
    )
    script.connect(*"AB")
    script.reject("A", "full", "queue_full")
    for reason in ("validation_throttled", "validation_ignored"):
        script.validate(reason)
        script.reject("A", reason, reason)
        script.duplicate("B", reason)
    script.validate("later")
    script.reject("A", "later", "validation_failed")
    script.duplicate("B", "later")
    script.validate("before")
    script.duplicate("B", "before")
    script.reject("A", "before", "validation_failed")
    return script


def application() -> ScoreScript:
    script = ScoreScript(
        "application-score",
        "Only the current application score counts.",
        "A",
        specification="v1.1, P₅",
        AppSpecificWeight=0.5,
    )
    script.connect("A")
    script.graft("A")
    for value in range(-100, 100):
        script.add_step("application_score", peer="A", score=value)
    script.refresh()
    return script


def shared_addresses() -> Iterator[ScoreScript]:
    layout = {"A": ["1.2.3.4"], "B": ["2.3.4.5"], "C": ["2.3.4.5", "3.4.5.6"], "D": ["2.3.4.5"]}
    for name, description, allowed in (
        ("shared-addresses", "Three peers share an address.", []),
        ("shared-addresses-allowed", "Three peers share an address of an exempt network.", ["2.3.0.0/16"]),
    ):
        script = ScoreScript(
            name,
            description,
            "ABCD",
            specification="v1.1, P₆",
            IPColocationFactorWeight=-1,
            IPColocationFactorThreshold=1,
            IPColocationFactorWhitelist=allowed,
        )
        for peer, addresses in layout.items():
            script.connect(peer, addresses=addresses)
            script.graft(peer)
        script.refresh()
        yield script


def misbehaviour() -> ScoreScript:
    script = ScoreScript(
        "behaviour-penalty",
        "Misbehaviour is squared and decays; that of an unknown peer is not counted.",
        "A",
        specification="v1.1, P₇",
        BehaviourPenaltyWeight=-1,
        BehaviourPenaltyDecay=0.99,
    )
    script.add_step("behaviour_penalty", peer="A", count=1)
    script.connect("A")
    for _ in range(2):
        script.add_step("behaviour_penalty", peer="A", count=1)
    script.refresh()
    return script


def retention() -> ScoreScript:
    script = ScoreScript(
        "retention",
        "The score of a peer that has gone is kept for a time.",
        "A",
        specification="v1.1, Score Retention",
        AppSpecificWeight=1,
        RetainScore=SECOND,
    )
    script.connect("A")
    script.add_step("application_score", peer="A", score=-1000)
    script.graft("A")
    script.refresh()
    script.add_step("disconnect", peer="A")
    for script.at in (500 * MS, 1_050 * MS):
        script.refresh()
    return script


def smaller_caps() -> ScoreScript:
    own = {
        **NO_DECAY,
        "FirstMessageDeliveriesWeight": 1,
        "FirstMessageDeliveriesCap": 100,
        "MeshMessageDeliveriesWeight": -1,
        "MeshMessageDeliveriesCap": 100,
        "MeshMessageDeliveriesThreshold": 100,
        "MeshMessageDeliveriesWindow": 10 * MS,
    }
    script = ScoreScript(
        "smaller-caps",
        "A lower cap cuts a counter that exceeds it.",
        "AB",
        own,
        specification="go, SetTopicScoreParams",
    )
    script.connect(*"AB")
    script.graft(*"AB")
    script.at = MS
    script.refresh()
    for number in range(100):
        script.validate(f"m{number}")
        script.deliver("A", f"m{number}")
        script.duplicate("B", f"m{number}")
    less = {**own, "FirstMessageDeliveriesCap": 50, "MeshMessageDeliveriesCap": 50}
    script.add_step("topic_parameters", topic=TOPIC, parameters=less)
    return script


def other_weights() -> ScoreScript:
    script = ScoreScript(
        "other-weights",
        "Changed weights apply at once to what was counted.",
        "A",
        {"InvalidMessageDeliveriesWeight": -1},
        specification="go, SetTopicScoreParams",
    )
    script.connect("A")
    for number in range(100):
        script.validate(f"m{number}")
        script.reject("A", f"m{number}", "validation_failed")
    own = {**NO_DECAY, "InvalidMessageDeliveriesWeight": -10}
    script.add_step("topic_parameters", topic=TOPIC, parameters=own)
    return script
