"""A Spark session that another process keeps (`keeper`): start one, find it, use it, end it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hearsay.pipeline.spark.kept_place import (
    ANSWER_S,
    NotPrivate,
    is_of_this_user,
    received,
    sent,
    socket_of_the_keeper,
)
from hearsay.pipeline.spark.place import SparkUnavailable, WrongSetting
from hearsay.pipeline.spark.surroundings import KEEP, surroundings

MOST_MINUTES = 24 * 60.0
_END_S = 30.0


class KeptSessionGone(SparkUnavailable):
    """The session was there and has vanished; the same work can be done by one of the command's own."""


@dataclass(frozen=True, slots=True)
class Status:
    pid: int
    served: int
    now: int
    minutes_left: float


@dataclass(slots=True)
class Lent:
    """Where the JVM listens, and the connection that says that we are there."""

    port: int
    secret: str
    group: str
    """Of our jobs: they end when the connection does."""
    keeper: socket.socket

    def has_gone(self) -> bool:
        """Whether its keeper or its JVM has ended."""
        self.keeper.setblocking(False)
        try:
            if not self.keeper.recv(1):
                return True
        except BlockingIOError:
            pass
        except OSError:
            return True
        try:
            socket.create_connection(("127.0.0.1", self.port), ANSWER_S).close()
        except OSError:
            return True
        return False

    def close(self) -> None:
        self.keeper.close()


def minutes_asked_for() -> float | None:
    """What the environment says: None if nothing, 0 if kept sessions are not to be used."""
    said = os.environ.get(KEEP)
    if not said:
        return None
    try:
        minutes = float(said)
    except ValueError:
        minutes = -1.0
    if not 0 <= minutes <= MOST_MINUTES:
        raise WrongSetting(f"{KEEP} = {said!r:.40}: must be a number of minutes from 0 (never) to {MOST_MINUTES:.0f}")
    return minutes


def borrow(say: Callable[[str], None]) -> Lent | None:
    """The kept session, if there is one that fits; one is started if the environment asks for that."""
    minutes = minutes_asked_for()
    if minutes == 0:
        return None
    try:
        there = _connected()
        if there is None and minutes:
            say(f"starting a Spark session that is kept for {minutes:g} minutes")
            start_keeper(minutes)
            there = _connected()
    except (NotPrivate, SparkUnavailable) as error:
        say(f"no kept session is used: {error}")
        return None
    if there is None:
        return None
    told = _asked(there, {"wants": "session", "surroundings": surroundings()})
    if told is not None and {"port", "secret", "group"} <= told.keys():
        return Lent(told["port"], told["secret"], told["group"], there)
    there.close()
    why = "it does not answer" if told is None else told.get("refused", "its answer is not understood")
    say(f"the kept session is not used: {why}")
    return None


def start_keeper(minutes: float) -> None:
    """Start a process that keeps a session, and wait until it does."""
    process = subprocess.Popen(
        [sys.executable, "-m", "hearsay.pipeline.spark.keeper", str(minutes)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )
    assert process.stdout is not None
    try:
        with process.stdout as said:
            line = said.readline().strip()
    except BaseException:
        process.terminate()
        raise
    if line != "ready":
        process.wait()
        raise SparkUnavailable(line or f"its process ended with code {process.returncode}")
    process.returncode = 0  # it goes on without us, and is nobody's zombie


def status() -> Status | None:
    return _told("status")


def end_keeper() -> Status | None:
    """Have the kept session end, and wait for that; what it was, or None."""
    return _told("end")


def _connected() -> socket.socket | None:
    """None if none is kept; raises `NotPrivate` if what is there may be somebody else's."""
    try:
        place = socket_of_the_keeper()
    except FileNotFoundError:
        return None
    there = socket.socket(socket.AF_UNIX)
    there.settimeout(ANSWER_S)
    try:
        there.connect(str(place))
    except OSError:
        there.close()
        return None
    if not is_of_this_user(there):
        there.close()
        raise NotPrivate(f"{place} is somebody else's")
    return there


def _asked(there: socket.socket, question: dict[str, Any]) -> dict[str, Any] | None:
    try:
        sent(there, question)
        return received(there)
    except OSError:
        return None


def _told(wants: str) -> Status | None:
    try:
        there = _connected()
    except NotPrivate as error:
        raise SparkUnavailable(str(error)) from None
    if there is None:
        return None
    with there:
        told = _asked(there, {"wants": wants})
        if wants == "end":
            with suppress(OSError):
                there.settimeout(_END_S)
                there.recv(1)
    try:
        return Status(**told) if told else None
    except TypeError:
        return None
