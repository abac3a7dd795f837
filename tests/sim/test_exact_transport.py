"""Arrival times in small networks, compared with times that are computed by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest

from hearsay.api.scenarios import simulate
from hearsay.core.language.rpc import PartKind
from hearsay.sim.scenario.scenario_file import load_scenario
from hearsay.trace.language.schema import TraceEvent, TraceRow

NETWORK = """
linger_s = 8
[network]
nodes = 4
topology = "complete"
[workload]
messages = 0
size_bytes = 10_000
[links]
latency = "constant"
value_ms = 10
"""
ONE_PUBLISH = """
[[timed]]
at_s = 6
node = 0
action = "publish"
"""


@pytest.fixture
def copies(tmp_path):
    """Return a function that runs floodsub, with more keys of links and more tables, and returns node 0's rows of
    messages that it sends and receives.
    """

    def run(links: str = "", more: str = ONE_PUBLISH, seed: int = 1) -> list[TraceRow]:
        file = tmp_path / "scenario.toml"
        file.write_text(f"seed = {seed}\n{NETWORK}{links}\n{more}")
        seen: list[TraceRow] = []
        simulate(load_scenario(file, None, [], router="floodsub"), on_row=seen.append)
        return [row for row in seen if row.kind == PartKind.PUBLISH and 0 in (row.peer, row.remote)]

    return run


def sent(rows: list[TraceRow]) -> list[TraceRow]:
    return [row for row in rows if row.event == TraceEvent.SEND_RPC and row.peer == 0]


def test_without_an_uplink_every_copy_takes_the_latency(copies):
    assert [row.delay_us for row in sent(copies())] == [10_000] * 3


def test_an_uplink_sends_one_rpc_after_the_other(copies):
    found = sent(copies("uplink_mbit = 8"))  # a byte takes a microsecond
    size = found[0].bytes
    assert size is not None
    delays = [row.delay_us for row in found]
    first = delays[0]
    assert first is not None
    assert 10_000 + size <= first <= 10_000 + size + 20  # the RPC around the message has some bytes
    assert [later - earlier for earlier, later in pairwise(delays)] == [first - 10_000] * 2


def test_rpcs_that_a_full_uplink_queue_refuses_are_dropped(copies):
    found = copies("uplink_mbit = 8\nuplink_queue_bytes = 15_000")
    assert len([row for row in sent(found) if row.delay_us is not None]) == 1
    assert len([row for row in found if row.event == TraceEvent.DROP_RPC and row.peer == 0]) == 2


@pytest.mark.parametrize("seed", range(5))
def test_jitter_never_lets_a_later_rpc_overtake(copies, seed):
    publishes = "".join(f'[[timed]]\nat_s = {6 + n / 1000}\nnode = 0\naction = "publish"\n' for n in range(40))
    found = sent(copies("jitter_ms = 9", publishes, seed))
    for receiver in (1, 2, 3):
        arrivals = [row.time_us + (row.delay_us or 0) for row in found if row.remote == receiver]
        assert len(arrivals) == 40
        assert arrivals == sorted(arrivals)
    assert len({row.delay_us for row in found}) > 5


def test_only_rpcs_under_way_on_a_cut_link_are_lost(copies):
    cut = "[[faults.cut]]\nat_s = 6.005\nheal_s = 7\nlinks = [[0, 2]]\n"
    found = copies("", ONE_PUBLISH + cut)
    lost = [row for row in found if row.event == TraceEvent.DROP_RPC and row.peer == 0]
    assert [(row.remote, row.time_us) for row in lost] == [(2, 6_010_000)]
    assert len(sent(found)) == 3
