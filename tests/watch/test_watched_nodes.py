"""`hearsay node --watch`: the page of a real node shows its peers, and publishes messages."""

from __future__ import annotations

import signal
from subprocess import PIPE
from urllib.error import HTTPError

import pytest
from commands import hearsay, started
from watched import Watched, next_event


def test_two_nodes_one_of_them_watched():
    one = started("node", "--json", "--subscribe", "news", "--watch", stdin=PIPE, stdout=PIPE)
    other = None
    try:
        page = Watched(next_event(one, "watch")["address"], None, [])
        frames = page.frames()
        first = next(frames)
        assert (first["about"]["source"], first["about"]["can"]) == ("node", ["publish"])
        connect = next_event(one, "listening")["address"]
        other = started("node", "--json", "--subscribe", "news", "--connect", connect, stdin=PIPE, stdout=PIPE)
        linked = next(frame["linked"] for frame in frames if 0 in frame.get("linked", ())[::3])
        at = 3 * linked[::3].index(0)
        assert linked[at : at + 3] == [0, 0, 1]
        page.ask(do="publish", place=0, topic=0)
        assert next_event(other, "message")["data"] == "published from the page"
        assert page.ask(do="node", place=0)["traffic"]["published"] == 1
        with pytest.raises(HTTPError):
            page.ask(do="publish", place=1, topic=0)
    finally:
        for node in (one, other):
            if node is not None:
                node.send_signal(signal.SIGINT)
                node.communicate()
    assert (one.wait(), other.wait()) == (130, 130)


def test_an_invalid_or_unavailable_address_is_one_line():
    ended = hearsay("node", "--subscribe", "news", "--watch", "70000")
    assert (ended.returncode, "ports are 0…65535" in ended.stderr) == (2, True)
    ended = hearsay("node", "--subscribe", "news", "--watch", "192.0.2.7:0")
    assert (ended.returncode, "--watch 192.0.2.7:0: cannot serve the page" in ended.stderr) == (1, True)
