"""Who brought which message, until its verdict and for some time after it.

Rules:

* DELIVERY-8: Records last as long as messages are remembered as seen, and there are so many at most; the oldest goes
  first. Of one message so many peers are remembered: names cost a peer nothing, and later ones get neither credit nor
  blame.
"""

from __future__ import annotations

from hearsay.core.language.identifiers import MessageId, Micros, PeerId
from hearsay.core.rules.scores.deliveries import OPEN


class DeliveryRecord:
    __slots__ = ("decided", "senders", "state", "until")

    def __init__(self, until: Micros) -> None:
        self.state = OPEN
        self.until = until
        self.decided: Micros = 0
        """When the verdict came."""
        self.senders: dict[PeerId, None] = {}
        """Of copies, in their order."""


class DeliveryRecords:
    __slots__ = ("_most", "_records", "_ttl")

    def __init__(self, ttl: Micros, most: int) -> None:
        self._ttl = ttl
        self._most = most
        self._records: dict[MessageId, DeliveryRecord] = {}
        """The oldest first."""

    def __len__(self) -> int:
        return len(self._records)

    def record(self, message: MessageId, now: Micros) -> DeliveryRecord:
        found = self._records.get(message)
        if found is None:
            if len(self._records) >= self._most:
                del self._records[next(iter(self._records))]
            found = self._records[message] = DeliveryRecord(now + self._ttl)
        return found

    def expire(self, now: Micros) -> None:
        while self._records:
            oldest = next(iter(self._records))
            if now <= self._records[oldest].until:
                break
            del self._records[oldest]
