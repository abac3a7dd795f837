"""Causes of a copy's wait at its sender: HEARTBEAT only while the receiver is in the topic and connected."""

from __future__ import annotations

from explained_runs import load_kind, simulate

from hearsay.explain.deliveries import explain_node
from hearsay.explain.links import connections_until
from hearsay.explain.message import open_message
from hearsay.explain.path import Step
from hearsay.explain.rows import members_of


def test_waits_for_a_heartbeat_begin_after_the_receiver_joined_and_connected(tmp_path):
    run = simulate(load_kind("churn"), tmp_path / "run")
    assert run is not None
    heartbeats = 0
    steps: set[Step] = set()
    for message in range(8):
        story = open_message(run, str(message))
        links = connections_until(story.run, story.run.end_us)
        members = members_of(story.run, story.history.topic)
        for node in set(story.history.deliveries.node.tolist()):
            answer = explain_node(story, node)
            assert answer is not None
            for hop in answer.path.hops:
                steps |= {spell.step for spell in hop.times}
                for spell in hop.times:
                    if spell.step is not Step.HEARTBEAT:
                        continue
                    heartbeats += 1
                    there = members.node == hop.receiver
                    there &= (members.since_us <= spell.from_us) & (members.until_us >= spell.until_us)
                    assert there.any()
                    assert any(
                        other == hop.receiver and since <= spell.from_us and until >= spell.until_us
                        for other, since, until in links.of(hop.sender)
                    )
    assert heartbeats > 10
    assert {Step.ABSENT, Step.UNCONNECTED} <= steps
