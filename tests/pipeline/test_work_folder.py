"""Folders for temporary files: a new session removes those of killed processes, and none that a process holds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from stat import S_IMODE

import pytest

from hearsay.pipeline.spark.work_folder import made_work_folder, work_folder


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_no_other_user_may_read_the_folder(temporary):
    folder = made_work_folder()
    assert S_IMODE(folder.path.stat().st_mode) == 0o700
    folder.remove()
    assert list(temporary.iterdir()) == []


HOLD = """
import sys
from hearsay.pipeline.spark.work_folder import work_folder
with work_folder() as path:
    print(path, flush=True)
    sys.stdin.read()
"""


def test_a_held_folder_stays_and_an_unheld_one_is_removed(temporary):
    variables = {**os.environ, "TMPDIR": str(temporary)}
    held = [sys.executable, "-c", HOLD]
    with subprocess.Popen(held, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables) as maker:
        assert maker.stdout is not None
        left = Path(maker.stdout.readline().strip())
        (left / "rows").mkdir()
        (left / "rows" / "link").symlink_to(temporary / "elsewhere")
        (temporary / "elsewhere").touch()
        with work_folder() as mine:
            assert mine.exists()
            assert left.exists(), "its process still runs"
        maker.kill()
        maker.wait()
    with work_folder() as mine:
        assert sorted(temporary.iterdir()) == sorted([temporary / "elsewhere", mine])
    assert list(temporary.iterdir()) == [temporary / "elsewhere"]


def test_a_folder_that_cannot_be_removed_yet_keeps_its_lock(temporary, monkeypatch):
    """A JVM that ends later than its driver may still write into the folder."""
    left = made_work_folder()
    (left.path / "rows").mkdir()
    with monkeypatch.context() as busy:
        busy.setattr(shutil, "rmtree", lambda path, ignore_errors: None)
        left.remove()
    assert left.path.exists()
    with work_folder() as mine:
        assert list(temporary.iterdir()) == [mine]


@pytest.mark.parametrize("kind", ["without a lock", "a link", "a file", "its lock is a link"])
def test_folders_and_files_of_other_programs_stay(temporary, kind):
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
    with work_folder():
        pass
    assert place.exists()
    assert (other / "held").exists()


def test_folders_of_other_users_stay(temporary, monkeypatch):
    """The folder is this user's, and the process pretends to be another user's."""
    left = made_work_folder()
    left.lock.close()
    mine = os.getuid()
    with monkeypatch.context() as other:
        other.setattr(os, "getuid", lambda: mine + 1)
        with work_folder():
            assert left.path.exists()
    with work_folder():
        pass
    assert not left.path.exists()
