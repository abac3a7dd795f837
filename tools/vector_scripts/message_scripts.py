"""Vectors of messages: publishing, fanout, forwarding, and messages that are not forwarded (v1.0, v1.1)."""

from __future__ import annotations

from collections.abc import Iterator

from vector_scripts.router_script import APPLICATION_SCORE, SECOND, TOPIC, RouterScript

from hearsay.core.language.rpc import FLOODSUB

TWO = {"D": 2, "Dlo": 1, "Dhi": 4, "Dscore": 0, "Dout": 0, "Dlazy": 0}
FLOOD = "v1.1, Flood Publishing"


def scripts() -> Iterator[RouterScript]:
    yield forwarding()
    yield duplicates()
    yield other_topics()
    yield own_echo()
    yield validation()
    yield verdict_after_leaving()
    yield flood_publishing()
    yield publishing_to_the_mesh()
    yield publish_threshold()
    yield fanout()
    yield fanout_is_topped_up()
    yield fanout_ends()
    yield fanout_becomes_mesh()
    yield fanout_threshold()
    yield subscriptions()


def forwarding() -> RouterScript:
    script = RouterScript(
        "forward",
        "v1.0, Message Processing",
        "A message goes to the mesh and to floodsub peers, but not to its sender or its author.",
        **TWO,
    )
    script.join()
    script.connect("ABC")
    script.graft("ABC")
    script.connect("D")
    script.connect("F", FLOODSUB)
    script.receive("A", "m1")
    script.rpc("B", messages=[script.message("m2", author="C")])
    return script


def duplicates() -> RouterScript:
    script = RouterScript(
        "duplicates",
        "v1.0, Message Processing",
        "Only the first copy of a message is delivered, and a message is published once.",
        **TWO,
    )
    script.join()
    script.connect("AB")
    script.graft("AB")
    for peer in "AAB":
        script.receive(peer, "m1")
    script.publish("m2")
    script.add_step("publish", message="m2")
    return script


def other_topics() -> RouterScript:
    script = RouterScript(
        "other-topics",
        "v1.0, Message Processing",
        "Messages of topics that the router has not joined are ignored.",
        **TWO,
    )
    script.connect("AB")
    script.receive("A", "m1")
    script.join()
    script.receive("A", "m2")
    return script


def own_echo() -> RouterScript:
    script = RouterScript(
        "own-message-back",
        "v1.0, Message Processing",
        "A message whose author is the router itself is not accepted from a peer.",
        **TWO,
    )
    script.join()
    script.connect("AB")
    script.rpc("A", messages=[script.message("m1", author="self")])
    return script


def validation() -> RouterScript:
    script = RouterScript(
        "validation", "v1.1, Extended Validators",
        "Only messages that the validator accepts are delivered and forwarded.",
        **TWO, Validate=True,
    )  # fmt: skip
    script.join()
    script.connect("AB")
    script.graft("AB")
    for name, verdict in (("m1", "accept"), ("m2", "reject"), ("m3", "ignore")):
        script.receive("A", name)
        script.add_step("verdict", message=name, verdict=verdict)
        script.receive("B", name)
    return script


def verdict_after_leaving() -> RouterScript:
    script = RouterScript(
        "left-before-the-verdict",
        "v1.0, Topic membership",
        "A router that has left the topic forwards nothing.",
        **TWO,
        Validate=True,
    )
    script.join()
    script.connect("AB")
    script.graft("AB")
    script.receive("A", "m1")
    script.add_step("leave", topic=TOPIC)
    script.add_step("verdict", message="m1", verdict="accept")
    return script


def flood_publishing() -> RouterScript:
    script = RouterScript(
        "flood-publish",
        FLOOD,
        "The router sends its own messages to all peers of the topic, and those of others to the mesh.",
        **TWO,
        FloodPublish=True,
    )
    script.join()
    script.connect("ABCD")
    script.graft("AB")
    script.publish("m1")
    script.receive("A", "m2")
    return script


def publishing_to_the_mesh() -> RouterScript:
    script = RouterScript(
        "publish",
        "v1.0, Message Processing",
        "Without FloodPublish the router sends its own messages to the mesh.",
        **TWO,
        FloodPublish=False,
    )
    script.join()
    script.connect("ABCD")
    script.graft("AB")
    script.publish("m1")
    return script


def publish_threshold() -> RouterScript:
    script = RouterScript(
        "publish-threshold", "v1.1, Score thresholds",
        "A peer below the publish threshold gets the router's own messages only while it is in the mesh.",
        **TWO, FloodPublish=True, Score=APPLICATION_SCORE,
    )  # fmt: skip
    script.join()
    script.connect("ABCD")
    script.connect("EF", FLOODSUB)
    script.graft("A")
    script.rate(A=-100.5, B=-100, C=-100.5, E=-100.5)
    script.publish("m1")
    return script


def _published(name: str, description: str, **more: object) -> RouterScript:
    script = RouterScript(name, "v1.0, Topic membership", description, **{**TWO, "FloodPublish": False, **more})
    script.connect("ABC")
    script.rpc("C", unsubscribe=[TOPIC])
    script.publish("m1")
    return script


def fanout() -> RouterScript:
    script = _published(
        "fanout", "In a topic that it has not joined, the router publishes to D peers, the same for each message."
    )
    script.rpc("C", subscribe=[TOPIC])
    script.publish("m2")
    script.heartbeat()
    return script


def fanout_is_topped_up() -> RouterScript:
    script = _published("fanout-top-up", "A heartbeat replaces fanout peers that have disconnected.")
    script.rpc("C", subscribe=[TOPIC])
    script.add_step("disconnect", peer="A")
    script.heartbeat()
    script.publish("m2")
    return script


def fanout_ends() -> RouterScript:
    script = _published("fanout-ends", "A fanout without a message for FanoutTTL is removed.", FanoutTTL=3 * SECOND)
    script.at = 2 * SECOND
    script.publish("m2")
    script.heartbeat(5)
    return script


def fanout_becomes_mesh() -> RouterScript:
    script = _published("fanout-becomes-mesh", "JOIN grafts the fanout peers first.")
    script.rpc("C", subscribe=[TOPIC])
    script.join()
    return script


def fanout_threshold() -> RouterScript:
    script = RouterScript(
        "fanout-threshold", "v1.1, Score thresholds", "A peer below the publish threshold is in no fanout.",
        **TWO, FloodPublish=False, Score=APPLICATION_SCORE,
    )  # fmt: skip
    script.connect("ABC")
    script.rate(A=-100.5)
    script.publish("m1")
    script.rate(B=-100.5)
    script.heartbeat()
    return script


def subscriptions() -> RouterScript:
    script = RouterScript(
        "subscriptions",
        "v1.0, Topic membership",
        "The router announces its topics to new peers, and changes to all peers.",
        **TWO,
    )
    script.connect("A", topic="other")
    script.join()
    script.connect("B", topic="other")
    script.add_step("leave", topic=TOPIC)
    script.add_step("disconnect", peer="A")
    return script
