"""Every code of a reason has words, and the rules that reasons cite exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hearsay.core.language.actions import Reason, Via
from hearsay.explain.copies import CAUSES_OF_FATES, Copy, Fate, cause_of_reason, via_words
from hearsay.explain.deliveries import Sent
from hearsay.explain.missing import RULES

CORE = Path(__file__).parents[2] / "src" / "hearsay" / "core"


def test_cited_rules_exist():
    text = "".join(path.read_text(encoding="utf-8") for path in CORE.rglob("*.py"))
    stated = set(re.findall(r"^ *\* ([A-Z0-9]+-[0-9]+): ", text, re.MULTILINE))
    cited = {cause_of_reason(reason).rule for reason in Reason} | set(RULES.values()) | {"GOSSIP-1"}
    cited |= {CAUSES_OF_FATES[fate].rule for fate in Fate if fate is not Fate.ARRIVED}
    assert cited - {None} <= stated


def test_every_code_has_words_and_unknown_ones_too():
    assert all(cause_of_reason(reason).words for reason in (*Reason, -1, 999))
    assert all(via_words(via) for via in Via)
    assert via_words(-1) is None
    assert via_words(99) is None


@pytest.mark.parametrize("fate", [fate for fate in Fate if fate is not Fate.ARRIVED])
def test_a_copy_has_failed_only_if_the_trace_shows_that(fate):
    copy = Copy(0, 1, 5, None, fate, Via.MESH, 1, 10)
    assert Sent(copy, CAUSES_OF_FATES[fate]).failed is (fate not in (Fate.UNDER_WAY, Fate.UNSEEN))
