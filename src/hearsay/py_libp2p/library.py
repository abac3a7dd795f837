"""The one place that loads py-libp2p and trio, and says what to install when they are not there.

py-libp2p pins much and compiles some of it, so it is no part of the ordinary installation and its types are not
known when ours are checked: what comes from it is `Any`, and only this room touches it.
"""

from __future__ import annotations

import logging
import os
import sys
from importlib import import_module
from typing import Any

from hearsay.extras import MissingExtra, pip_install


def library(name: str) -> Any:
    """A module of py-libp2p, or of what comes with it."""
    loaded = "libp2p" in sys.modules
    try:
        module = import_module(name)
    except ImportError:
        raise MissingExtra(f"a py-libp2p host needs py-libp2p 0.8: {pip_install('libp2p')}") from None
    if not loaded and "LIBP2P_DEBUG" not in os.environ:
        # It logs every failed dial and negotiation as an error; who uses it here hears of them as exceptions.
        logging.getLogger("libp2p").setLevel(logging.CRITICAL)
    return module
