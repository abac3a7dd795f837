"""Numbers of offences that bring a peer below each threshold, and the times until they are forgotten."""

from __future__ import annotations

import pytest
from clean_set import checked

from hearsay.score_check.check import check_subject
from hearsay.score_check.offences import BROKEN_PROMISES, GRAFTS, SHARING_PEERS, offences
from hearsay.score_check.subjects import read_subject, subject_of_set


def find_offence(found, name):
    return next(each for each in found if each.name == name)


def test_promises_broken_at_once_are_enough_where_one_at_each_heartbeat_never_is():
    """rust counts a promise for every id: 17 at once are −10 · 17² = −2,890, more than its best score of 2,800."""
    found = find_offence(check_subject(subject_of_set("rust")).offences, BROKEN_PROMISES)
    assert found.needed == {"negative": 17, "gossip": 17, "publish": 17, "graylist": 17}
    assert (found.forgiven_s, found.forgotten_s) == (1, 4)


def test_rust_and_js_graylist_a_newcomer_after_three_broken_promises(tmp_path):
    """Without topics three broken promises are −90, below graylist (−80)."""
    for name in ("rust", "js"):
        path = tmp_path / "scenario.toml"
        path.write_text(f'[router]\npreset = "{name}"\n', encoding="utf-8")
        found = find_offence(offences(check_subject(read_subject(path)).worth), BROKEN_PROMISES)
        assert found.needed == {"negative": 1, "gossip": 2, "publish": 3, "graylist": 3}, name


@pytest.mark.parametrize(("each", "needed"), [(0, None), (1, 2), (5, 2)])
def test_promises_are_broken_as_fast_as_they_can_be(tmp_path, each, needed):
    """Two bring a score of 20 below 0: two at once count 2, and one at each heartbeat counts 1 + 0.95."""
    found = checked(tmp_path, {"expect.promises_per_heartbeat": each})
    assert find_offence(found.offences, BROKEN_PROMISES).needed["negative"] == needed


def test_more_offences_are_needed_if_they_decay_between_heartbeats(tmp_path):
    """A score below −200 takes a counter of 4.7: five promises at once, or six with one at each heartbeat."""
    counts = [
        find_offence(checked(tmp_path, {"expect.promises_per_heartbeat": each}).offences, BROKEN_PROMISES)
        for each in (10, 1)
    ]
    assert [each.needed["graylist"] for each in counts] == [5, 6]


def test_a_router_that_tracks_no_promises_counts_none_as_broken(tmp_path):
    path = tmp_path / "scenario.toml"
    path.write_text('[router]\npreset = "nim"\n', encoding="utf-8")
    for subject in (read_subject(path), subject_of_set("nim")):
        found = find_offence(check_subject(subject).offences, BROKEN_PROMISES)
        assert set(found.needed.values()) == {None}
        assert (found.forgiven_s, found.forgotten_s) == (None, None)


def test_numbers_of_offences_are_whole(tmp_path):
    penalties = checked(tmp_path, {}).to_json()["offences"]
    assert {each["offence"] for each in penalties} >= {BROKEN_PROMISES, GRAFTS, SHARING_PEERS}
    assert all(
        type(each[level]) is int for each in penalties for level in ("negative", "gossip", "publish", "graylist")
    )
