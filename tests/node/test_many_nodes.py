"""Many nodes in one process; the bench runs the same with two hundred."""

from __future__ import annotations

import asyncio

from many_nodes import measure


def test_sixty_nodes_in_one_process_deliver_everything():
    found = asyncio.run(measure(60, 30))
    assert 1 <= found.copies < 12
