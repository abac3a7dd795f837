"""Loops of ingest and pipeline as machine code, kept on disk so that the seconds of compiling are spent once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeVar, cast

from hearsay.trace.language.kept_code import KeptCode

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """The function as machine code that runs without the interpreter's lock.

    It may use what its own room has, and trace and core.
    """
    return cast("Function", _kept_of(function.__module__.split(".")[1]).compile(function))


@cache
def _kept_of(room: str) -> KeptCode:
    return KeptCode(room, (room, "core", "trace"))
