"""The only door to numba, which ships no types.

Compiled code is kept on disk where numba finds a place for it, so that the seconds of compiling are spent once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])

_njit: Any = cast("Any", numba).njit


def compiled(function: Function) -> Function:
    """The function as machine code that runs without the interpreter's lock."""
    try:
        return _njit(nogil=True, cache=True)(function)
    except RuntimeError:  # a read-only installation without a home: compile in every process
        return _njit(nogil=True)(function)
