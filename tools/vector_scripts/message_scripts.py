"""Vectors of messages: publishing, fan-out, forwarding, and what is not used (v1.0, v1.1)."""

from __future__ import annotations

from collections.abc import Iterator

from vector_scripts.router_script import RATED, SECOND, TOPIC, RouterScript

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
        "A message goes to the mesh and to those who flood, but not back.",
        **TWO,
    )
    script.join()
    script.connect("ABC")
    script.graft("ABC")
    script.connect("D")
    script.connect("F", FLOODSUB)
    script.bring("A", "m1")
    script.rpc("B", messages=[script.message("m2", author="C")])
    return script


def duplicates() -> RouterScript:
    script = RouterScript("duplicates", "v1.0, Message Processing", "Only the first copy counts.", **TWO)
    script.join()
    script.connect("AB")
    script.graft("AB")
    for peer in "AAB":
        script.bring(peer, "m1")
    script.publish("m2")
    script.do("publish", message="m2")
    return script


def other_topics() -> RouterScript:
    script = RouterScript(
        "other-topics", "v1.0, Message Processing", "Topics one is not in are none of one's business.", **TWO
    )
    script.connect("AB")
    script.bring("A", "m1")
    script.join()
    script.bring("A", "m2")
    return script


def own_echo() -> RouterScript:
    script = RouterScript(
        "own-message-back", "v1.0, Message Processing", "One's own message is not taken from others.", **TWO
    )
    script.join()
    script.connect("AB")
    script.rpc("A", messages=[script.message("m1", author="self")])
    return script


def validation() -> RouterScript:
    script = RouterScript(
        "validation", "v1.1, Extended Validators", "What is accepted is delivered and forwarded, the rest is not.",
        **TWO, Validate=True,
    )  # fmt: skip
    script.join()
    script.connect("AB")
    script.graft("AB")
    for name, verdict in (("m1", "accept"), ("m2", "reject"), ("m3", "ignore")):
        script.bring("A", name)
        script.do("verdict", message=name, verdict=verdict)
        script.bring("B", name)
    return script


def verdict_after_leaving() -> RouterScript:
    script = RouterScript(
        "left-before-the-verdict", "v1.0, Topic membership", "Who has left forwards nothing.", **TWO, Validate=True
    )
    script.join()
    script.connect("AB")
    script.graft("AB")
    script.bring("A", "m1")
    script.do("leave", topic=TOPIC)
    script.do("verdict", message="m1", verdict="accept")
    return script


def flood_publishing() -> RouterScript:
    script = RouterScript(
        "flood-publish",
        FLOOD,
        "One's own go to all of the topic, those of others to the mesh.",
        **TWO,
        FloodPublish=True,
    )
    script.join()
    script.connect("ABCD")
    script.graft("AB")
    script.publish("m1")
    script.bring("A", "m2")
    return script


def publishing_to_the_mesh() -> RouterScript:
    script = RouterScript(
        "publish", "v1.0, Message Processing", "Without it they go to the mesh.", **TWO, FloodPublish=False
    )
    script.join()
    script.connect("ABCD")
    script.graft("AB")
    script.publish("m1")
    return script


def publish_threshold() -> RouterScript:
    script = RouterScript(
        "publish-threshold", "v1.1, Score thresholds",
        "Below the publish threshold a peer gets none of one's own; in the mesh it does until it is pruned.",
        **TWO, FloodPublish=True, Score=RATED,
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
    script = _published("fanout", "Outside a topic messages go to D peers of it, the same each time.")
    script.rpc("C", subscribe=[TOPIC])
    script.publish("m2")
    script.heartbeat()
    return script


def fanout_is_topped_up() -> RouterScript:
    script = _published("fanout-top-up", "A heartbeat makes up for those who have gone.")
    script.rpc("C", subscribe=[TOPIC])
    script.do("disconnect", peer="A")
    script.heartbeat()
    script.publish("m2")
    return script


def fanout_ends() -> RouterScript:
    script = _published("fanout-ends", "After FanoutTTL without a message it is forgotten.", FanoutTTL=3 * SECOND)
    script.at = 2 * SECOND
    script.publish("m2")
    script.heartbeat(5)
    return script


def fanout_becomes_mesh() -> RouterScript:
    script = _published("fanout-becomes-mesh", "Its peers are the first of the mesh.")
    script.rpc("C", subscribe=[TOPIC])
    script.join()
    return script


def fanout_threshold() -> RouterScript:
    script = RouterScript(
        "fanout-threshold", "v1.1, Score thresholds", "Below the publish threshold no peer is in a fan-out.",
        **TWO, FloodPublish=False, Score=RATED,
    )  # fmt: skip
    script.connect("ABC")
    script.rate(A=-100.5)
    script.publish("m1")
    script.rate(B=-100.5)
    script.heartbeat()
    return script


def subscriptions() -> RouterScript:
    script = RouterScript(
        "subscriptions", "v1.0, Topic membership", "The router sends peers the topics that it is in.", **TWO
    )
    script.connect("A", topic="other")
    script.join()
    script.connect("B", topic="other")
    script.do("leave", topic=TOPIC)
    script.do("disconnect", peer="A")
    return script
