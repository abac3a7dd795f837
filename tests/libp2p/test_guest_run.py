"""The guest run of trio that hosts on py-libp2p share: it ends with its last host; the next host starts a new one."""

from __future__ import annotations

import asyncio

import pytest
from waiting import run

from hearsay.libp2p.names.multiaddr import Multiaddr
from hearsay.py_libp2p import host as host_module
from hearsay.py_libp2p.guest import Guest
from hearsay.py_libp2p.host import PyLibp2pHost

pytest.importorskip("trio", reason="the guest run needs trio, which py-libp2p installs")


async def answer():
    return 42


@run
async def test_a_guest_run_that_ends_is_not_joined_and_the_next_one_starts_after_its_end():
    """trio allows one run at a time in a thread."""
    first = await Guest.join()
    leaving = asyncio.ensure_future(first.leave())
    await asyncio.sleep(0)
    joined = await asyncio.gather(*(Guest.join() for _ in range(3)))
    assert leaving.done()
    assert joined == [joined[0]] * 3
    assert joined[0] is not first
    assert await joined[0].call(answer) == 42
    for guest in joined:
        await guest.leave()
    assert not Guest._of_loop


@run
async def test_a_cancelled_leave_lets_the_guest_run_end():
    guest = await Guest.join()
    leaving = asyncio.ensure_future(guest.leave())
    await asyncio.sleep(0)
    leaving.cancel()
    other = await Guest.join()
    assert await other.call(answer) == 42
    await other.leave()


@run
async def test_a_host_that_could_not_start_leaves_the_guest_run_when_it_is_closed():
    pytest.importorskip("libp2p")

    def fail(most):
        raise RuntimeError("no configuration")

    host = PyLibp2pHost()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(host_module, "connection_config", fail)
        with pytest.raises(RuntimeError, match="no configuration"):
            await host.listen(Multiaddr.parse("/ip4/127.0.0.1/tcp/0"))
    await host.close()
    assert not Guest._of_loop
