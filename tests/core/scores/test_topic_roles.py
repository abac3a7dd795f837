"""The table of a score set by which a topic is scored."""

from __future__ import annotations

import pytest

from hearsay.core.scores.score_parameters import role_of

TABLES = dict.fromkeys(("beacon_block", "beacon_attestation", "blocks", "blocks-1", "t", "any"))


@pytest.mark.parametrize(
    ("topic", "table"),
    [
        ("beacon_block", "beacon_block"),
        ("/eth2/6a95a1a9/beacon_block/ssz_snappy", "beacon_block"),
        ("/eth2/6a95a1a9/beacon_attestation_17/ssz_snappy", "beacon_attestation"),
        ("beacon_attestation_0", "beacon_attestation"),
        ("/fil/blocks/testnetnet", "blocks"),
        ("blocks-7", "blocks"),
        ("blocks-1", "blocks-1"),
        ("blocks-x", "any"),
        ("blocks-", "any"),
        ("beacon_blocks", "any"),
        ("any", "any"),
        ("other/any", "any"),
        ("", "any"),
        ("x/t/blocks", "blocks"),
    ],
)
def test_the_table_of_a_topic(topic, table):
    """Rules: SET-1."""
    assert role_of(topic, TABLES) == table


def test_without_any_other_topics_are_not_scored():
    """Rules: SET-1."""
    assert role_of("other", {"blocks": None}) is None
