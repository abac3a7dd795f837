"""A host that runs on py-libp2p, with the interface of `hearsay.libp2p.node_host`, over TCP, QUIC and WebSocket.

TCP and WebSocket are secured only with Noise; QUIC has TLS 1.3 with libp2p's certificates. Other options of
py-libp2p, such as plaintext, are disabled. Identify is answered by `hearsay.libp2p.identify` on both kinds of host.

This host adds what py-libp2p lacks in comparison with `hearsay.libp2p.host`. It bans peers and pings silent
peers. It limits the number of connections (by the limit of open files, and by address), the streams of a peer, and
the memory of streams. Handshakes and windows have the limits of py-libp2p.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from itertools import count
from os import urandom
from typing import Any

from hearsay.libp2p.identify import PING_BYTES, PING_PROTOCOL
from hearsay.libp2p.mux.stream import Stream, StreamClosed
from hearsay.libp2p.names.errors import DialError, MultistreamError
from hearsay.libp2p.names.keys import PrivateKey
from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.libp2p.names.peer_id import PeerId, to_text
from hearsay.libp2p.node_host import MAX_STREAMS, HostLimits, NodeHost
from hearsay.py_libp2p.guest import (
    Gate,
    Guest,
    Notifee,
    StreamCarrier,
    connection_config,
    each_interface,
    group_of,
    import_extra,
    py_libp2p_address,
    py_libp2p_id,
    remote_address_of,
    without_peer,
)

_KINDS = (("tcp",), ("tcp", "ws"), ("udp", "quic-v1"))
"""The protocols after the IP address or host name in addresses that this host can dial and listen at."""
_EXAMPLES = ("/ip4/0.0.0.0/tcp/1", "/ip4/0.0.0.0/tcp/2/ws", "/ip4/0.0.0.0/udp/3/quic-v1")
"""An address of each kind. py-libp2p creates the transports of these addresses, but does not listen at them."""


class PyLibp2pHost(NodeHost):
    """A host that runs on py-libp2p. It starts when it first listens, dials or runs work. Then it must be closed."""

    kinds = "TCP, WebSocket and QUIC, such as /ip4/127.0.0.1/udp/4001/quic-v1"

    def __init__(self, identity: PrivateKey | None = None, limits: HostLimits | None = None) -> None:
        import_extra("libp2p")  # fail here, not when the host starts
        super().__init__(identity, limits)
        self._active_s: dict[PeerId, float] = {}
        self._watching: dict[PeerId, asyncio.Task[None]] = {}
        self._connections: dict[PeerId, list[Any]] = {}
        self._dialled: set[PeerId] = set()
        """Peers whose first connection this host dialled."""
        self._carriers: dict[PeerId, set[StreamCarrier]] = {}
        self._numbers = count()
        self._starting: asyncio.Future[None] | None = None
        self._guest: Guest | None = None
        self._serving: asyncio.Future[None] | None = None
        self._under: Any = None
        """py-libp2p's host; None before the start."""

    @property
    def connections(self) -> Collection[PeerId]:
        return self._connections.keys()

    @property
    def protocols(self) -> Collection[str]:
        if self._under is None:
            return super().protocols
        return [str(name) for name in self._under.get_mux().get_protocols() if name]

    @property
    def addresses(self) -> tuple[Multiaddr, ...]:
        if self._under is None:
            return ()
        listening = [Multiaddr.decode(address.to_bytes()) for address in self._under.get_transport_addrs()]
        return tuple(concrete.with_peer(self.peer) for address in listening for concrete in each_interface(address))

    def handle(self, protocol: str, handler: Callable[[Stream], object], max_streams: int = MAX_STREAMS) -> None:
        super().handle(protocol, handler, max_streams)
        if self._under is not None:
            self._offer(protocol)

    async def listen(self, address: Multiaddr) -> tuple[Multiaddr, ...]:
        if not self.can_dial(address):
            raise ValueError(f"{address}: this host listens only on {self.kinds}")
        guest = await self._started()
        network = self._under.get_network()
        if not await guest.call(network.listen, py_libp2p_address(address)):
            raise OSError(f"cannot listen at {address}")
        return self.addresses

    @staticmethod
    def can_dial(address: Multiaddr) -> bool:
        return tuple(name for name, _ in address.parts[1:] if name != "p2p") in _KINDS

    async def dial(self, address: Multiaddr) -> PeerId:
        expected = address.peer
        self.check_dial(address)
        if expected is None:
            raise DialError(address, "py-libp2p needs a peer id: the address must end with /p2p/…")
        guest = await self._started()
        if expected not in self._connections:
            self._dialled.add(expected)
        try:
            async with asyncio.timeout(self.limits.dial_s):
                await guest.call(self._connect, expected, address)
        except TimeoutError:
            raise DialError(address, f"no answer within {self.limits.dial_s:g} s") from None
        except Exception as error:  # errors of py-libp2p, trio, sockets and certificates
            raise DialError(address, _reason(error)) from None
        finally:
            if expected not in self._connections:
                self._dialled.discard(expected)
                self.failed_dials += 1
        if expected not in self._connections:
            raise DialError(address, "the connection was closed at once")
        return expected

    async def open_stream(self, peer: PeerId, protocols: Sequence[str]) -> Stream:
        guest = self._guest
        if guest is None or peer not in self._connections:
            raise StreamClosed(f"{to_text(peer)} is not connected")
        try:
            under = await guest.call(self._under.new_stream, py_libp2p_id(peer), list(protocols))
        except Exception as error:
            reason = _reason(error)
            if "not supported" in reason:
                raise MultistreamError(reason) from None
            raise StreamClosed(reason) from None
        carrier = self._carrier(under, False)
        guest.call(carrier.run)
        if peer not in self._connections:
            carrier.end()
            raise StreamClosed(f"{to_text(peer)} is gone")
        return carrier.stream

    def remote_address(self, peer: PeerId) -> Multiaddr | None:
        found = (remote_address_of(connection) for connection in self._connections.get(peer, ()))
        return next((address for address in found if address is not None), None)

    def has_dialled(self, peer: PeerId) -> bool:
        return peer in self._dialled

    def address_of(self, peer: PeerId) -> str:
        return group_of(self.remote_address(peer))

    def disconnect(self, peer: PeerId) -> None:
        if self._guest is not None and peer in self._connections:
            self._guest.call(self._under.disconnect, py_libp2p_id(peer))

    async def close(self) -> None:
        """Close the host. Unsent bytes may be lost. Return None: the host does not know what peers have received."""
        self._closed = True
        if self._starting is not None:
            await asyncio.wait([self._starting])
        guest, self._guest = self._guest, None
        if guest is None:
            return
        for peer in list(self._connections):
            self._gone(peer)
        if self._serving is not None:
            self._serving.cancel()
        await guest.leave()

    async def run_service(self, work: Callable[[Any], Awaitable[None]]) -> asyncio.Future[None]:
        """Start `work`, such as a service, in trio, with py-libp2p's host as its argument. Return a future of its
        end.

        The caller must cancel the future before it closes this host.
        """
        guest = await self._started()
        return guest.call(work, self._under)

    async def call(self, work: Callable[..., Awaitable[Any]], *arguments: object) -> Any:
        """Run `work` in trio with these arguments, and return its result."""
        guest = await self._started()
        return await guest.call(work, *arguments)

    async def _started(self) -> Guest:
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._start())
        await asyncio.shield(self._starting)
        if self._guest is None:
            raise OSError("this host is closed")
        return self._guest

    async def _start(self) -> None:
        guest = self._guest = await Guest.join()
        libp2p, noise = import_extra("libp2p"), import_extra("libp2p.security.noise.transport")
        keys = import_extra("libp2p.crypto.ed25519").create_new_key_pair(self.identity.seed)
        noise_key = import_extra("libp2p.crypto.x25519").create_new_key_pair().private_key
        self._under = libp2p.new_host(
            key_pair=keys,
            sec_opt={noise.PROTOCOL_ID: noise.Transport(libp2p_keypair=keys, noise_privkey=noise_key)},
            muxer_preference="YAMUX",
            listen_addrs=[py_libp2p_address(Multiaddr.parse(address)) for address in _EXAMPLES],
            connection_config=connection_config(self._fitted.connections),
        )
        self._under.get_network().connection_gate = Gate(lambda address: self.admits(None, address))
        self._under.get_network().register_notifee(Notifee(self._up, self._down))
        for protocol in self._handlers:
            self._offer(protocol)
        running: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._serving = guest.call(self._serve, running)
        await asyncio.wait([running, self._serving], return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            self._serving.result()

    async def _serve(self, running: asyncio.Future[None]) -> None:
        async with self._under.run(listen_addrs=[]):
            running.set_result(None)
            try:
                await import_extra("trio").sleep_forever()
            finally:
                with import_extra("trio").move_on_after(2, shield=True):
                    await self._under.close()

    async def _connect(self, peer: PeerId, address: Multiaddr) -> None:
        """Dial this address. If the peer is not connected, first make py-libp2p forget its other addresses."""
        theirs = py_libp2p_id(peer)
        if peer not in self._connections:
            network = self._under.get_network()
            network.unblock_peer(theirs)  # py-libp2p blocks a peer for a minute after a failed dial
            self._under.get_peerstore().clear_addrs(theirs)
        info = import_extra("libp2p.peer.peerinfo").PeerInfo(theirs, [py_libp2p_address(without_peer(address))])
        await self._under.connect(info)

    def _offer(self, protocol: str) -> None:
        async def handler(under: Any) -> None:
            peer = under.muxed_conn.peer_id.to_bytes()
            if peer not in self._connections:
                await under.reset()
                return
            handling, most = self._handlers[protocol]
            others = [known for known in self._carriers.get(peer, ()) if known.inbound]
            if sum(known.stream.protocol == protocol for known in others) >= most:
                asyncio.get_running_loop().call_soon(self.peer_over_limit, peer)
                await under.reset()
                return
            carrier = self._carrier(under, True)
            asyncio.get_running_loop().call_soon(handling, carrier.stream)
            await carrier.run()

        self._under.set_stream_handler(protocol, handler)

    def _carrier(self, under: Any, inbound: bool) -> StreamCarrier:
        peer = under.muxed_conn.peer_id.to_bytes()
        carrier = StreamCarrier(next(self._numbers), under, self.resources, self.address_of(peer), inbound, self)
        self._carriers.setdefault(peer, set()).add(carrier)
        return carrier

    def record_activity(self, peer: PeerId) -> None:
        """Record that a peer is alive, because it has sent data or answered."""
        self._active_s[peer] = asyncio.get_running_loop().time()

    def _up(self, connection: Any) -> None:
        peer = connection.muxed_conn.peer_id.to_bytes()
        address = group_of(remote_address_of(connection))
        if self._guest is not None and (self._is_full(address) or not self.admits(peer, address)):
            self._guest.call(connection.close)
            return
        known = self._connections.setdefault(peer, [])
        known.append(connection)
        if len(known) == 1 and not self._closed:
            self._watching[peer] = asyncio.get_running_loop().create_task(self._watch(peer))
            for callback in self.on_peer_up:
                asyncio.get_running_loop().call_soon(callback, peer)

    def _down(self, connection: Any) -> None:
        peer = connection.muxed_conn.peer_id.to_bytes()
        known = self._connections.get(peer, [])
        if connection in known:
            known.remove(connection)
            if not known:
                self._gone(peer)

    def _is_full(self, address: str) -> bool:
        """Return True if an address group (`resources.address_group`) has its maximum number of connected peers."""
        if len(self._connections) < self._fitted.per_address:
            return False
        return sum(self.address_of(peer) == address for peer in self._connections) >= self._fitted.per_address

    async def _watch(self, peer: PeerId) -> None:
        """Ping the peer whenever it has been silent for `idle_s`. If it does not answer, end its connections."""
        limits = self.limits.connection
        loop = asyncio.get_running_loop()
        self.record_activity(peer)
        while True:
            silent_s = loop.time() - self._active_s[peer]
            if silent_s < limits.idle_s:
                await asyncio.sleep(limits.idle_s - silent_s)
                continue
            try:
                async with asyncio.timeout(limits.answer_s):
                    stream = await self.open_stream(peer, [PING_PROTOCOL])
                    try:
                        stream.write(urandom(PING_BYTES))
                        await stream.read()
                    finally:
                        stream.reset()
            except TimeoutError:
                await self._abandon(peer)
                return
            except (MultistreamError, StreamClosed):
                pass  # the peer has answered
            self.record_activity(peer)

    async def _abandon(self, peer: PeerId) -> None:
        """End the connections to a peer that may read nothing, not even GO_AWAY."""
        connections, guest = self._connections.get(peer, []), self._guest
        if guest is not None and connections:
            self._watching.pop(peer, None)  # do not cancel this task
            self._gone(peer)
            await guest.call(_end, self._under.get_network(), peer, connections)

    def _gone(self, peer: PeerId) -> None:
        del self._connections[peer]
        self._dialled.discard(peer)
        watching = self._watching.pop(peer, None)
        if watching is not None:
            watching.cancel()
        self._active_s.pop(peer, None)
        for carrier in self._carriers.pop(peer, set()):
            carrier.end()
        for callback in self.on_peer_down:
            asyncio.get_running_loop().call_soon(callback, peer)

    def carrier_gone(self, carrier: StreamCarrier) -> None:
        self._carriers.get(carrier.peer, set()).discard(carrier)


async def _end(network: Any, peer: PeerId, connections: Sequence[Any]) -> None:
    """Close connections whose sockets may be blocked. Runs in trio."""
    trio = import_extra("trio")
    with trio.move_on_after(1):
        await network.close_peer(py_libp2p_id(peer))
    for connection in connections:
        with trio.move_on_after(1), suppress(Exception):
            await connection.close()


def _reason(error: BaseException) -> str:
    """Return the message of the innermost cause of a py-libp2p error."""
    inner: BaseException | None = getattr(error, "exceptions", (error.__cause__,))[0]
    if inner is not None:
        return _reason(inner)
    line, _, _ = str(error).partition("\n")
    return line.removeprefix("Error 1: ") or type(error).__name__
