"""A host that listens on all interfaces announces the address of each interface."""

from __future__ import annotations

import asyncio

from hearsay.libp2p.host import Host
from hearsay.libp2p.identify import Identification
from hearsay.libp2p.node_host import concrete_addresses


def test_the_address_of_one_interface_stays_as_it_is():
    assert list(concrete_addresses("127.0.0.1", 7)) == [("127.0.0.1", 7)]
    assert list(concrete_addresses("::1", 7)) == [("::1", 7)]


def test_the_unspecified_address_stands_for_all_interfaces_with_loopback_last():
    found = [host for host, port in concrete_addresses("0.0.0.0", 7) if port == 7]
    assert "0.0.0.0" not in found
    assert all(":" not in host for host in found)
    assert found[-1].startswith("127.")


def test_identified_addresses_of_a_host_on_all_interfaces_can_be_dialled():
    async def work():
        host, asking, third = Host(), Host(), Host()
        try:
            for each in (host, asking):
                await each.listen("/ip4/0.0.0.0/tcp/0")
            Identification(host, "agent")
            asked = Identification(asking, "agent")
            identified = asyncio.get_running_loop().create_future()
            asked.on_identified.append(lambda peer, identity: identified.set_result(identity))
            await asking.dial(host.addresses[-1])
            addresses = (await identified).listen_addresses
            assert all(address.tcp_endpoint[0] != "0.0.0.0" for address in addresses)
            assert {address.tcp_endpoint[1] for address in addresses} == {host.addresses[0].tcp_endpoint[1]}
            assert await third.dial(addresses[-1]) == host.peer
        finally:
            for each in (host, asking, third):
                await each.close()

    asyncio.run(asyncio.wait_for(work(), 20))
