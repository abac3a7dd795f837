"""Many nodes in one process; the bench runs the same with two hundred."""

from __future__ import annotations

import asyncio

import pytest

from many_nodes import measure


@pytest.mark.thorough
def test_sixty_nodes_in_one_process_deliver_everything():
    found = asyncio.run(measure(60, 30))
    assert 1 <= found.copies < 12
