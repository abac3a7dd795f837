"""A third of six node processes is killed with SIGKILL; bench/killed_nodes.py runs the same with 30."""

from __future__ import annotations

import asyncio

import pytest

from killed_nodes import measure


@pytest.mark.thorough
def test_survivors_deliver_everything_and_traces_of_the_killed_are_readable(tmp_path):
    found = asyncio.run(measure(6, 50, tmp_path))
    assert found.messages >= 50
    assert found.rows_of_the_killed > 0
