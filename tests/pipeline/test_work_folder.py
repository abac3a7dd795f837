"""Folders for temporary files: those of processes that were killed go, those that somebody holds stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from stat import S_IMODE

import pytest
from kills import ends_within

from hearsay.pipeline.spark.work_folder import made_work_folder, remove_left_folders, work_folder

MAKE = """
import subprocess, sys
from hearsay.pipeline.spark.work_folder import made_work_folder
folder = made_work_folder()
held = [subprocess.Popen(["cat"], stdin=sys.stdin, stdout=subprocess.DEVNULL, pass_fds=[folder.lock.fileno()])]
print(folder.path, held[0].pid, flush=True)
held[0].wait()
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_nobody_else_may_read_what_lies_in_it(temporary):
    folder = made_work_folder()
    assert S_IMODE(folder.path.stat().st_mode) == 0o700
    assert folder.remove()
    folder.let_go()
    folder.let_go()
    assert list(temporary.iterdir()) == []


def test_what_is_held_stays_and_what_nobody_holds_goes(temporary):
    mine = made_work_folder()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(
        [sys.executable, "-c", MAKE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as maker:
        assert maker.stdin is not None
        assert maker.stdout is not None
        theirs, child = maker.stdout.readline().split()
        (Path(theirs) / "rows").mkdir()
        (Path(theirs) / "rows" / "link").symlink_to(temporary / "elsewhere")
        (temporary / "elsewhere").touch()
        maker.send_signal(signal.SIGKILL)
        maker.wait()
        remove_left_folders()
        assert Path(theirs).exists(), "a process that it was handed to goes on"
        maker.stdin.close()
        assert ends_within(int(child), 20)
        remove_left_folders()
    assert sorted(path.name for path in temporary.iterdir()) == sorted(["elsewhere", mine.path.name])
    assert mine.remove()
    mine.let_go()


@pytest.mark.parametrize("kind", ["without a lock", "a link", "a file", "its lock is a link"])
def test_what_is_none_of_ours_is_left_alone(temporary, kind):
    place = temporary / "hearsay-spark-x"
    other = temporary / "other"
    other.mkdir()
    (other / "held").touch()
    match kind:
        case "without a lock":
            place.mkdir()
        case "a link":
            place.symlink_to(other)
        case "a file":
            place.touch()
        case _:
            place.mkdir()
            (place / "held").symlink_to(other / "held")
    remove_left_folders()
    assert place.exists()
    assert (other / "held").exists()


def test_those_of_other_users_are_left_alone(temporary, monkeypatch):
    """Here it is us that are another user."""
    left = made_work_folder()
    left.let_go()
    mine = os.getuid()
    with monkeypatch.context() as other:
        other.setattr(os, "getuid", lambda: mine + 1)
        remove_left_folders()
        assert left.path.exists()
    remove_left_folders()
    assert not left.path.exists()


HOLD = """
import sys
from hearsay.pipeline.spark.work_folder import work_folder
with work_folder() as path:
    print(path, flush=True)
    sys.stdin.read()
"""


def test_the_folder_of_a_killed_process_goes_with_the_next(temporary):
    variables = {**os.environ, "TMPDIR": str(temporary)}
    held = [sys.executable, "-c", HOLD]
    with subprocess.Popen(held, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables) as maker:
        assert maker.stdout is not None
        left = Path(maker.stdout.readline().strip())
        with work_folder() as mine:
            assert mine.exists()
            assert left.exists(), "its process goes on"
        maker.kill()
        maker.wait()
    with work_folder() as mine:
        assert list(temporary.iterdir()) == [mine]
    assert list(temporary.iterdir()) == []
