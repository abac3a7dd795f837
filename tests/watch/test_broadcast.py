"""A slow browser takes bounded memory, and gets the whole state again; viewers and requests are bounded."""

from __future__ import annotations

import asyncio

import pytest

from hearsay.watch.broadcast import (
    MOST_ASKED,
    MOST_VIEWERS,
    MOST_WAITING,
    MOST_WAITING_BYTES,
    Broadcast,
    Refused,
    Viewer,
)
from hearsay.watch.links import DrawnNodes
from hearsay.watch.picture import Picture


def fail_if_asked(request):
    raise AssertionError(request)


@pytest.mark.parametrize(
    "frames", [[b"x"] * (MOST_WAITING + 1), [b"x" * MOST_WAITING_BYTES, b"x"]], ids=["many", "large"]
)
def test_a_slow_browser_loses_what_waits_and_gets_the_whole(frames):
    async def watched():
        viewer = Viewer()
        viewer.begin(b"whole")
        assert await viewer.next() == b"whole"
        for frame in frames:
            viewer.put(frame)
        assert viewer.behind
        viewer.begin(b"whole again")
        viewer.put(b"next")
        viewer.close()
        return [await viewer.next() for _ in range(3)]

    assert asyncio.run(watched()) == [b"whole again", b"next", None]


def test_a_new_viewer_gets_the_whole_state_first():
    async def watched():
        broadcast = Broadcast(Picture(DrawnNodes(3)), {"source": "test"}, asyncio.get_running_loop())
        viewer = broadcast.join()
        broadcast.answer_and_send(5, {"over": False}, fail_if_asked)
        return await viewer.next()

    sent = asyncio.run(watched())
    assert sent.startswith(b'data: {"number":1,"now":5,')
    assert b'"about":{"source":"test"}' in sent
    assert sent.endswith(b"}\n\n")


def test_a_viewer_that_joins_before_the_source_begins_gets_the_reason_for_waiting():
    async def watched():
        broadcast = Broadcast(Picture(DrawnNodes(3)), {}, asyncio.get_running_loop(), "compiling")
        early = broadcast.join()
        sent = await early.next()
        broadcast.answer_and_send(5, {"over": False}, fail_if_asked)
        return sent, await early.next(), broadcast.awaited

    sent, first, awaited = asyncio.run(watched())
    assert sent == b'event: awaited\ndata: "compiling"\n\n'
    assert first.startswith(b'data: {"number":1,')
    assert awaited is None


def test_viewers_and_waiting_requests_are_bounded():
    async def watched():
        broadcast = Broadcast(Picture(DrawnNodes(3)), {}, asyncio.get_running_loop())
        asked = [asyncio.ensure_future(broadcast.ask({"do": number})) for number in range(MOST_ASKED + 1)]
        done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        assert [str(each.exception()) for each in done] == [f"more than {MOST_ASKED} requests wait; try again later"]
        broadcast.answer_and_send(0, {}, lambda request: request["do"])
        found = await asyncio.gather(*asked[:-1])
        viewers = [broadcast.join() for _ in range(MOST_VIEWERS)]
        with pytest.raises(Refused):
            broadcast.join()
        broadcast.leave(viewers[0])
        broadcast.join()
        return found

    assert asyncio.run(watched()) == [*range(MOST_ASKED)]
