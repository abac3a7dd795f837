"""The router receives the RPCs that the bytes of a peer encode, on every path through the intake."""

from __future__ import annotations

import pytest
from hypothesis import given
from intake_paths import PATHS, assert_received, sent_rpcs
from profiles import examples


@pytest.mark.parametrize("name", PATHS)
def test_the_router_receives_what_the_bytes_say(name):
    @examples(0.3)
    @given(sent_rpcs())
    def compare(sent):
        assert_received(name, sent)

    compare()
