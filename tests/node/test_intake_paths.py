"""The router receives what the bytes of a peer say, on every path through the intake."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from intake_paths import PATHS, received_on, sent_rpcs
from profiles import examples
from test_intake import DearAuthor
from waiting import patience


@pytest.mark.parametrize("name", PATHS)
def test_the_router_receives_what_the_bytes_say(name):
    @examples(0.3)
    @given(sent_rpcs())
    def compare(sent):
        async def once():
            async with patience():
                return await received_on(PATHS[name], sent, DearAuthor())

        expected, received = asyncio.run(once())
        assert received == expected

    compare()
