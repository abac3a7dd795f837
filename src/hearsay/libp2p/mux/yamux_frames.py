"""Frames of Yamux, and the events of received frames."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import TypeAlias

PROTOCOL = "/yamux/1.0.0"
INITIAL_WINDOW = 256 * 1024
HEADER = Struct("!BBHII")


class FrameType(IntEnum):
    DATA = 0
    WINDOW_UPDATE = 1
    PING = 2
    GO_AWAY = 3


class Flag(IntEnum):
    SYN = 1
    ACK = 2
    FIN = 4
    RST = 8


class GoAway(IntEnum):
    NORMAL = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2


@dataclass(frozen=True, slots=True)
class Opened:
    """The peer opened a stream."""

    stream: int


@dataclass(frozen=True, slots=True)
class Received:
    stream: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Finished:
    """The peer finished its direction of a stream."""

    stream: int


@dataclass(frozen=True, slots=True)
class Reset:
    stream: int


YamuxEvent: TypeAlias = Opened | Received | Finished | Reset
