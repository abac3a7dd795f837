"""`TaskQueue`: tasks run in order, in the calling thread or a background thread, until the first error."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Event, current_thread, main_thread

import pytest

from hearsay.trace.folder.writer import TaskQueue


def fail() -> None:
    raise OSError("no room")


def submit_all(queue: TaskQueue, *tasks: Callable[[], None]) -> None:
    for task in tasks:
        queue.submit(task)
    queue.finish()


@pytest.mark.parametrize("ahead", [0, 1, 5])
def test_tasks_are_done_in_order(ahead):
    done: list[int] = []
    queue = TaskQueue("test", ahead)
    submit_all(queue, *[partial(done.append, number) for number in range(50)])
    assert done == list(range(50))
    queue.close()


def test_tasks_are_done_in_another_thread():
    in_main_thread: list[bool] = []
    queue = TaskQueue("test", 3)
    submit_all(queue, lambda: in_main_thread.append(current_thread() is main_thread()))
    queue.close()
    assert in_main_thread == [False]


def test_submit_waits_while_the_queue_is_full():
    """With room for two tasks, `submit` of the third returns only when the first is done."""
    may_go, first_done = Event(), Event()
    queue = TaskQueue("test", 2)

    def first() -> None:
        may_go.wait(60)
        first_done.set()

    queue.submit(first)
    queue.submit(may_go.clear)
    may_go.set()
    queue.submit(may_go.clear)
    assert first_done.is_set()
    queue.finish()
    queue.close()


@pytest.mark.parametrize("ahead", [0, 1, 5])
def test_the_first_error_is_raised_and_ends_the_queue(ahead):
    done: list[int] = []
    queue = TaskQueue("test", ahead)
    queue.submit(partial(done.append, 1))
    with pytest.raises(OSError, match="no room"):
        submit_all(queue, fail, *[partial(done.append, number) for number in range(2, 20)])
    queue.close()
    assert done == [1]
