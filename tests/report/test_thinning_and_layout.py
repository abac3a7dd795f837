"""Thinned curves agree with all values; layouts are deterministic and stay in the unit square."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearsay.graph_layout import force_layout
from hearsay.report import figure
from hearsay.report.explain_page import radial_tree

VALUES = st.lists(st.integers(0, 10**6), min_size=1, max_size=2000)


@given(VALUES, st.integers(1, 5))
def test_a_thinned_cdf_lies_on_the_whole_one(values, weight):
    latencies = np.array(values, dtype=np.float64)
    x, shares = figure.cdf(latencies, np.full(len(values), float(weight)))
    assert len(x) <= figure.CURVE_POINTS
    assert (x[0], x[-1], shares[-1]) == (min(values), max(values), 1)
    assert (np.diff(x) > 0).all()
    in_order = np.sort(latencies)
    assert shares == pytest.approx(np.searchsorted(in_order, x, side="right") / len(values))


def test_a_cdf_of_nothing_is_empty():
    for values, weights in (([], []), ([1.0], [0.0])):
        assert all(len(part) == 0 for part in figure.cdf(np.array(values), np.array(weights)))


@given(VALUES, st.integers(0, 3000))
def test_sorted_load_keeps_the_ends_and_counts_idle_nodes(values, nodes):
    ranks, loads = figure.sorted_load(np.array(values, dtype=np.float64), nodes)
    assert len(ranks) <= figure.LOAD_POINTS
    assert loads[-1] == max(values)
    assert loads[0] == (0 if nodes > len(values) else min(values))
    assert (np.diff(loads) >= 0).all()
    assert ranks[0] == 0


@given(st.lists(st.floats(-1e9, 1e9), max_size=2000))
def test_buckets_hold_everything_once_in_order_of_time(times):
    groups = figure.buckets(np.array(times))
    assert len(groups) <= figure.BUCKETS
    together = [times[place] for group in groups for place in group]
    assert together == sorted(times)


@pytest.mark.parametrize(
    ("nodes", "links"), [(0, []), (1, []), (2, [(0, 1)]), (60, [(a, (a + 7) % 60) for a in range(60)])]
)
def test_the_force_layout_is_in_the_unit_square_and_deterministic(nodes, links):
    pairs = np.array(links, dtype=np.int64).reshape(-1, 2)
    places = force_layout(nodes, pairs)
    assert places.shape == (nodes, 2)
    assert ((places >= 0) & (places <= 1)).all()
    assert (places == force_layout(nodes, pairs)).all()


def test_linked_nodes_stand_nearer_than_others():
    chain = np.array([(node, node + 1) for node in range(19)], dtype=np.int64)
    places = force_layout(20, chain)
    linked = np.linalg.norm(places[:-1] - places[1:], axis=1).mean()
    far = np.linalg.norm(places[:10] - places[10:], axis=1).mean()
    assert linked < far / 2


@given(st.data())
def test_a_tree_stands_in_rings(data):
    size = data.draw(st.integers(1, 60))
    parents = [data.draw(st.integers(-1, node - 1)) for node in range(size)]
    tree = radial_tree(parents, [None] * size)
    distance = np.hypot(tree.x - 0.5, tree.y - 0.5)
    assert distance == pytest.approx(tree.radii[tree.ring], abs=1e-9)
    assert (np.diff(tree.radii) > 0).all()
    assert all(
        tree.ring[node] == (tree.ring[parent] + 1 if parent >= 0 else 1) for node, parent in enumerate(parents)
    )
