from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Event, current_thread, main_thread

import pytest

from hearsay.trace.write.part_files import Lane


def fail() -> None:
    raise OSError("no room")


def submit_all(lane: Lane, *tasks: Callable[[], None]) -> None:
    for task in tasks:
        lane.submit(task)
    lane.finish()


@pytest.mark.parametrize("ahead", [0, 1, 5])
def test_tasks_are_done_in_order(ahead):
    done: list[int] = []
    lane = Lane("test", ahead)
    submit_all(lane, *[partial(done.append, number) for number in range(50)])
    assert done == list(range(50))
    lane.close()


def test_tasks_are_done_elsewhere():
    in_main_thread: list[bool] = []
    lane = Lane("test", 3)
    submit_all(lane, lambda: in_main_thread.append(current_thread() is main_thread()))
    lane.close()
    assert in_main_thread == [False]


def test_so_many_may_wait_and_no_more():
    """Submitting a third task of two returns once the first is done, which no other caller waits for."""
    may_go, first_done = Event(), Event()
    lane = Lane("test", 2)

    def first() -> None:
        may_go.wait(60)
        first_done.set()

    lane.submit(first)
    lane.submit(may_go.clear)
    may_go.set()
    lane.submit(may_go.clear)
    assert first_done.is_set()
    lane.finish()
    lane.close()


@pytest.mark.parametrize("ahead", [0, 1, 5])
def test_the_first_error_is_raised_and_ends_the_lane(ahead):
    done: list[int] = []
    lane = Lane("test", ahead)
    lane.submit(partial(done.append, 1))
    with pytest.raises(OSError, match="no room"):
        submit_all(lane, fail, *[partial(done.append, number) for number in range(2, 20)])
    lane.close()
    assert done == [1]
