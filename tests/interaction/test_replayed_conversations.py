"""Both engines reproduce each conversation that can be replayed (see `replay.py`)."""

from __future__ import annotations

import pytest
from replay import Replay, Unplayable
from test_conversations import SCRIPTS

from engines_agree import difference_text, run_array, run_reference


def replays() -> dict[str, Replay]:
    found: dict[str, Replay] = {}
    for path in SCRIPTS:
        try:
            found[path.stem] = Replay(path.read_text(encoding="utf-8"))
        except Unplayable:
            continue
    return found


REPLAYS = replays()


@pytest.mark.parametrize("name", REPLAYS)
def test_both_engines_do_what_the_conversation_says(name):
    replay = REPLAYS[name]
    plan = replay.plan()
    reference, _ = run_reference(plan)
    array, _ = run_array(plan)
    assert difference_text(array, reference) is None
    assert replay.lines_of(array, plan.topics) == replay.expected
