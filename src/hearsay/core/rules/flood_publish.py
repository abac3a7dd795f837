"""To how many peers one's own message goes at once.

* JUDGE-7: With a rate, to as many as it serves in a heartbeat; the mesh or the fan-out counts, and a mesh's least
  members are served in any case (nim; *reference only:* `flood_publish`). Large messages would else fill the uplink
  before the first copy is out of it.
"""

from __future__ import annotations

_BYTES_PER_MS = 125
"""Of a rate of 1 Mbit/s."""


def served_in_a_heartbeat(data_bytes: int, rate_mbit: int, heartbeat_ms: int, least: int) -> int:
    """JUDGE-7; a copy takes whole milliseconds, one at least (nim)."""
    return max(heartbeat_ms // max(data_bytes // (rate_mbit * _BYTES_PER_MS), 1), least)
