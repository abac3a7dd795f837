"""Who gets a kept session, without one: real connections, and what is told over them."""

from __future__ import annotations

import json
import os
import socket
import sys
from contextlib import ExitStack
from queue import Queue

import pytest

from hearsay.pipeline.spark import kept_place
from hearsay.pipeline.spark.lender import MOST_AT_ONCE, MOST_COMMANDS, MOST_CONNECTIONS, Gateway, Lender

SURROUNDINGS = {"code": "a", "limits": "b"}
ASKED = {"wants": "session", "surroundings": SURROUNDINGS}
_LONGEST_S = 20


class Side:
    """A lender, and those who come to it."""

    def __init__(self, stack: ExitStack, minutes: float = 5.0) -> None:
        self.cancelled: Queue[str] = Queue()
        self.lender = Lender(Gateway(1234, "secret"), SURROUNDINGS, minutes, self.cancelled.put)
        self._stack = stack

    def comes(self) -> socket.socket:
        there, here = socket.socketpair(socket.AF_UNIX)
        self._stack.enter_context(here)
        here.settimeout(_LONGEST_S)
        self.lender.meet(there)
        return here

    def asks(self, question: object = ASKED) -> tuple[socket.socket, dict]:
        here = self.comes()
        return here, answer(here, question)

    def leaves(self, here: socket.socket) -> str:
        """The group whose jobs are cancelled then."""
        here.close()
        return self.cancelled.get(timeout=_LONGEST_S)


def answer(here: socket.socket, question: object) -> dict:
    """Nothing if the connection is closed instead."""
    try:
        here.sendall(json.dumps(question).encode() + b"\n")
        line = here.makefile().readline()
    except ConnectionError:
        return {}
    return json.loads(line) if line else {}


@pytest.fixture
def side():
    with ExitStack() as stack:
        yield Side(stack)


def is_closed(here: socket.socket) -> bool:
    try:
        return here.recv(1) == b""
    except ConnectionError:
        return True


def test_a_command_gets_it_until_its_connection_ends_and_then_its_jobs_end(side):
    first, told = side.asks()
    assert told == {"port": 1234, "secret": "secret", "group": "command-1"}
    second, told = side.asks()
    assert told["group"] == "command-2"
    assert side.leaves(second) == "command-2"
    assert side.cancelled.empty()
    assert side.leaves(first) == "command-1"


@pytest.mark.parametrize(
    ("theirs", "named"),
    [({"code": "a"}, "limits"), ({"code": "x", "limits": "y"}, "code and limits"), (None, "code and limits"), (
        ["code"], "code and limits")],
)  # fmt: skip
def test_other_surroundings_get_no_secret(side, theirs, named):
    _, told = side.asks({"wants": "session", "surroundings": theirs})
    assert told == {"refused": f"it differs in {named}"}


def test_a_process_of_another_user_gets_no_answer(side, monkeypatch):
    """The kernel says who the other is; here it is us that are another user."""
    mine = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    assert side.asks()[1] == {}


@pytest.mark.skipif(os.getuid() != 0 or sys.platform != "linux", reason="only root becomes another user")
def test_a_process_that_really_is_of_another_user_gets_no_answer(side):
    name = f"\0hearsay-test-{os.getpid()}"  # in no folder, so that nothing else keeps it out
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(name)
        listener.listen()
        listener.settimeout(_LONGEST_S)
        child = os.fork()
        if child == 0:
            os._exit(_is_answered_as_nobody(name))
        side.lender.meet(listener.accept()[0])
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _is_answered_as_nobody(name: str) -> int:
    try:
        os.setuid(65534)
        with socket.socket(socket.AF_UNIX) as here:
            here.connect(name)
            here.settimeout(_LONGEST_S)
            return bool(answer(here, ASKED))
    except BaseException:
        return 2


def test_so_many_commands_have_it_at_once(side):
    served = [side.asks()[0] for _ in range(MOST_AT_ONCE)]
    assert side.asks()[1] == {"refused": f"{MOST_AT_ONCE} commands use it"}
    side.leaves(served[0])
    assert "secret" in side.asks()[1]


def test_after_so_many_commands_it_is_over(side):
    for _ in range(MOST_COMMANDS - 1):
        side.leaves(side.asks()[0])
    last, told = side.asks()
    assert "secret" in told
    assert not side.lender.is_over
    assert side.asks()[1] == {"refused": f"it has served {MOST_COMMANDS} commands, and ends"}
    side.leaves(last)
    while not side.lender.is_over:
        side.asks({"wants": "status"})


def test_so_many_connections_are_listened_to(side):
    silent = [side.comes() for _ in range(MOST_CONNECTIONS)]
    assert side.asks({"wants": "status"})[1] == {}
    silent[0].close()
    while side.asks({"wants": "status"})[1].get("now") != 0:
        pass


def test_a_line_that_does_not_end_is_not_waited_for(side, monkeypatch):
    """Neither when it comes byte by byte."""
    monkeypatch.setattr(kept_place, "ANSWER_S", 0.3)
    here = side.comes()
    here.settimeout(0.05)
    for _ in range(200):
        try:
            here.sendall(b"x")
            assert here.recv(1) == b""
            return
        except TimeoutError:
            continue
        except ConnectionError:
            return
    raise AssertionError("it listens for ever")


def test_a_line_that_is_too_long_is_not_read_to_its_end(side):
    here = side.comes()
    with pytest.raises(ConnectionError):
        here.sendall(b"x" * 1_000 * kept_place.MOST_BYTES)


def test_when_it_ends_commands_see_it(side):
    here, _ = side.asks()
    side.lender.part()
    assert is_closed(here)


def test_without_a_command_it_is_over_after_its_minutes():
    with ExitStack() as stack:
        side = Side(stack, minutes=0)
        here, _ = side.asks()
        assert not side.lender.is_over
        side.leaves(here)
        while not side.lender.is_over:
            side.asks({"wants": "status"})


def test_who_is_told_to_end_it_sees_its_end(side):
    here, told = side.asks({"wants": "end"})
    assert (told["pid"], told["served"], told["now"]) == (os.getpid(), 0, 0)
    while not side.lender.is_over:
        side.asks({"wants": "status"})
    here.settimeout(0.05)
    with pytest.raises(TimeoutError):
        here.recv(1)
