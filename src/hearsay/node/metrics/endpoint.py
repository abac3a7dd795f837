"""Where a node shows its metrics: `HOST:PORT`, or a port on this machine alone."""

from __future__ import annotations

import re

_LOOPBACK = "127.0.0.1"
_FORM = re.compile(r"(?:(?:\[(?P<six>[0-9A-Fa-f:.%]+)\]|(?P<host>[A-Za-z0-9._-]+)):)?(?P<port>[0-9]{1,5})", re.ASCII)


def endpoint_of(text: str) -> tuple[str, int]:
    """Host and port; `ValueError` says what an address looks like."""
    found = _FORM.fullmatch(text)
    if found is None or int(found["port"]) > 65_535:
        raise ValueError(
            f"{text!r}: an address is HOST:PORT, such as 127.0.0.1:9464 or [::]:9464, or a port from 0 to 65535 "
            "on this machine alone"
        )
    return found["six"] or found["host"] or _LOOPBACK, int(found["port"])
