"""What becomes of peers that did what no honest one does: they are read more slowly, then kept out for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

from hearsay.libp2p.host.node_host import NodeHost
from hearsay.libp2p.names.peer_id import PeerId
from hearsay.node.driver import Driver
from hearsay.node.fairness.conduct import Conduct, ConductLimits, KeptOut, Offence


class HeldPeers:
    """The conduct of a host's peers, and what follows from it for the host and for the driver, once there is one."""

    def __init__(self, host: NodeHost, limits: ConductLimits) -> None:
        self._host = host
        self._limits = limits
        self.driver: Driver | None = None
        self.on_kept_out: list[Callable[[KeptOut], None]] = []
        self.conduct = Conduct(monotonic, self._put_out, limits)
        host.admits = lambda peer, address: self.conduct.kept_out(peer, address) is None

    def offended(self, peer: PeerId, offence: Offence, count: int) -> None:
        driver = self._running
        address = driver.links.group_of(peer)
        driver.statistics.offences[offence] += count
        self.conduct.note(peer, address, offence, count)
        link = driver.links.of.get(peer)
        if link is not None and self.conduct.slowed(peer, address):
            driver.statistics.slowed += 1
            link.rest(self._limits.pause_s)

    @property
    def _running(self) -> Driver:
        assert self.driver is not None
        return self.driver

    def _put_out(self, news: KeptOut) -> None:
        """No more is read from these peers; they are let go of when the router has done what it is about."""
        driver, loop = self._running, asyncio.get_running_loop()
        driver.statistics.put_out += 1
        for peer in list(self._host.connections):
            if peer == news.peer or (news.peer is None and self._host.address_of(peer) == news.address):
                link = driver.links.of.get(peer)
                if link is not None:
                    link.intake.refuse()
                loop.call_soon(self._host.disconnect, peer)
        for callback in self.on_kept_out:
            callback(news)
