"""Where a kept session is looked for: a folder of this user alone, or nowhere."""

from __future__ import annotations

import os

import pytest

from hearsay.pipeline.spark.kept_place import NotPrivate, made_folder, socket_of_the_keeper


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / f"hearsay-spark-of-{os.getuid()}"


def assert_not_looked_into():
    with pytest.raises(NotPrivate):
        socket_of_the_keeper()


def test_it_is_made_for_this_user_alone(folder):
    with pytest.raises(FileNotFoundError):
        socket_of_the_keeper()
    before = os.umask(0)
    try:
        made_folder()
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert socket_of_the_keeper() == folder / "kept"


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701, 0o710, 0o704])
def test_one_that_others_may_enter_is_not_looked_into(folder, mode):
    folder.mkdir()
    folder.chmod(mode)
    assert_not_looked_into()


def test_one_of_another_user_is_not_looked_into(folder, monkeypatch):
    """Here it is us that are another user."""
    other = os.getuid() + 1
    folder.with_name(f"hearsay-spark-of-{other}").mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: other)
    assert_not_looked_into()


def test_a_link_and_a_file_in_its_place_are_not_followed(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    assert_not_looked_into()
    folder.unlink()
    folder.touch(mode=0o700)
    assert_not_looked_into()
