"""Topologies: which node dials which. Also: many draws at once equal single draws."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearsay.core.rules.randomness import MASK, Purpose, Randomness
from hearsay.sim.plan.draws import distinct, draw_array
from hearsay.sim.plan.network import dials
from hearsay.sim.scenario.reading import ScenarioError, read_edges
from hearsay.sim.scenario.scenario import Scenario

KINDS = ["random", "ring_random", "scale_free", "complete"]


def dial(seed: int = 1, **network: object) -> list[list[int]]:
    return list(dials(Scenario.model_validate({"network": network}), Randomness(seed)))


def pairs(targets: list[list[int]]) -> set[tuple[int, int]]:
    return {(min(a, b), max(a, b)) for a, others in enumerate(targets) for b in others}


@given(st.sampled_from(KINDS), st.integers(1, 90), st.integers(0, 100), st.integers(0, 9))
def test_a_node_dials_different_other_nodes(kind: str, nodes: int, degree: int, seed: int):
    targets = dial(seed, topology=kind, nodes=nodes, degree=degree)
    assert len(targets) == nodes
    for node, others in enumerate(targets):
        assert len(set(others)) == len(others)
        assert node not in others
        assert all(0 <= other < nodes for other in others)


@given(st.sampled_from(["random", "ring_random"]), st.integers(1, 90), st.integers(0, 100))
def test_the_degree_is_exact(kind: str, nodes: int, degree: int):
    assert {len(others) for others in dial(topology=kind, nodes=nodes, degree=degree)} == {min(degree, nodes - 1)}


def test_random_dials_equal_the_draws_of_the_core():
    randomness = Randomness(5)
    assert dial(5, nodes=300, degree=12) == [
        randomness.distinct(12, 300, node, Purpose.TOPOLOGY, node) for node in range(300)
    ]


def test_random_is_uniform():
    targets = dial(nodes=200, degree=190)
    dialled = [sum(node in others for others in targets) for node in range(200)]
    assert min(dialled) > 170
    few = dial(nodes=2000, degree=10)
    counts = np.bincount([other for others in few for other in others], minlength=2000)
    assert counts.mean() == 10
    assert 8 < counts.var() < 12


def test_ring_random_starts_with_the_ring():
    targets = dial(topology="ring_random", nodes=50, degree=3)
    assert [others[0] for others in targets] == [*range(1, 50), 0]


@pytest.mark.parametrize("kind", KINDS)
def test_one_and_two_nodes(kind: str):
    assert dial(topology=kind, nodes=1) == [[]]
    assert pairs(dial(topology=kind, nodes=2)) == {(0, 1)}


def test_complete():
    assert dial(topology="complete", nodes=4) == [[1, 2, 3], [2, 3], [3], []]


def test_scale_free_grows_by_degree():
    targets = dial(topology="scale_free", nodes=5000, degree=6)
    assert [len(others) for others in targets] == [0, 0, 0] + [3] * 4997
    assert all(other < node for node, others in enumerate(targets) for other in others)
    degrees = np.bincount(np.array(sorted(pairs(targets))).ravel())
    assert degrees.max() > 100
    # The share of nodes with degree m is 2 / (m + 2).
    assert np.mean(degrees == 3) == pytest.approx(2 / 5, abs=0.03)


def test_edges(tmp_path: Path):
    file = tmp_path / "edges.txt"
    file.write_text("# a comment\n0 1\n\n2 1  # another\n1 0\n0 1\n")
    assert dial(topology="edge_list", nodes=3, edges_file=str(file)) == [[1], [], [1]]


def test_bad_edges_are_all_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "edges.txt"
    file.write_text("0 1\n0 9\nzero one\n2 2\n1 2 3\n-1 2\n")
    with pytest.raises(ScenarioError) as error:
        read_edges(file, 5)
    assert error.value.problems == [
        "edges.txt:2: node 9: must be in 0…4",
        "edges.txt:3: 'zero one' is not two node numbers",
        "edges.txt:4: node 2 is linked to itself",
        "edges.txt:5: '1 2 3' is not two node numbers",
        "edges.txt:6: node -1: must be in 0…4",
    ]


def test_seeds_differ():
    for kind in KINDS[:3]:
        assert dial(1, topology=kind) == dial(1, topology=kind)
        assert dial(1, topology=kind) != dial(2, topology=kind)


@given(st.integers(1, 300), st.integers(1, 300), st.integers(-1, 320))
def test_distinct_for_any_count(count: int, bound: int, exclude: int):
    drawn = distinct(Randomness(1), count, bound, exclude, Purpose.TOPOLOGY, 7)
    allowed = set(range(bound)) - {exclude}
    assert len(drawn) == len(set(drawn)) == min(count, len(allowed))
    assert set(drawn) <= allowed


@given(st.lists(st.tuples(st.integers(0, MASK), st.integers(0, MASK)), min_size=1), st.integers(0, MASK))
def test_draws_of_arrays_equal_those_of_the_core(rows: list[tuple[int, int]], word: int):
    randomness = Randomness(3)
    table = np.array(rows, dtype=np.uint64)
    drawn = draw_array(randomness, Purpose.LINK_CUT, (word,), table[:, 0], table[:, 1])
    assert drawn.tolist() == [randomness.draw(Purpose.LINK_CUT, word, a, b) for a, b in rows]
