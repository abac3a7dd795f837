"""Many nodes in one process; bench/many_nodes.py runs the same with 200 nodes."""

from __future__ import annotations

import asyncio

import pytest

from many_nodes import measure


@pytest.mark.thorough
def test_sixty_nodes_in_one_process_deliver_everything():
    found = asyncio.run(measure(60, 30))
    assert 1 <= found.copies < 12
