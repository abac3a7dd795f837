"""The key file of a node: complete or absent, readable only by its owner, never overwritten."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from hearsay.libp2p.names.keys import PrivateKey
from hearsay.node.config import KeyFileError, identity_in

KILLED_WHILE_WRITING = """
import os, signal, sys
from pathlib import Path
from hearsay.node import config
os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)
config.identity_in(Path(sys.argv[1]))
"""


def test_a_key_is_made_once_and_no_other_user_may_read_it(tmp_path):
    made = identity_in(tmp_path / "key")
    assert identity_in(tmp_path / "key").seed == made.seed
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_a_node_killed_while_it_writes_its_key_can_be_started_again(tmp_path):
    done = subprocess.run([sys.executable, "-c", KILLED_WHILE_WRITING, str(tmp_path / "key")], timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "key").exists()
    assert identity_in(tmp_path / "key").seed


@pytest.fixture
def no_hard_links(monkeypatch):
    def link(*_, **__):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)


def test_two_nodes_get_the_same_new_key_where_there_are_no_hard_links(tmp_path, monkeypatch, no_hard_links):
    """The second node starts between the first one's look for a key and its rename."""
    path, rename, others = tmp_path / "key", Path.rename, []
    with ThreadPoolExecutor(1) as pool:

        def late(self, target):
            if not others:
                others.append(pool.submit(identity_in, path))
                wait(others, timeout=0.2)
            return rename(self, target)

        monkeypatch.setattr(Path, "rename", late)
        first = identity_in(path)
        assert first.seed == others[0].result().seed == identity_in(path).seed
    assert path.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_a_key_that_another_node_makes_first_is_used_where_there_are_no_hard_links(tmp_path, monkeypatch):
    path, made = tmp_path / "key", PrivateKey.generate()

    def link(*_, **__):
        path.touch(0o600)
        path.write_bytes(made.encode())
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(os, "link", link)
    assert identity_in(path).seed == made.seed


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o604])
def test_a_key_that_others_may_read_is_refused(tmp_path, mode):
    path = tmp_path / "key"
    path.write_bytes(PrivateKey.generate().encode())
    path.chmod(mode)
    with pytest.raises(KeyFileError, match=f"mode {mode:o}.*chmod 600"):
        identity_in(path)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "empty; remove it"),
        (b"hello", "damaged, or not the key of a node"),
        (bytes(5000), "more than 4096 bytes"),
    ],
)
def test_what_is_no_key_is_refused_and_left_alone(tmp_path, content, complaint):
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(KeyFileError, match=complaint):
        identity_in(path)
    assert path.read_bytes() == content


def test_links_are_followed_to_a_key_and_never_written_through(tmp_path):
    made = identity_in(tmp_path / "key")
    (tmp_path / "link").symlink_to("key")
    assert identity_in(tmp_path / "link").seed == made.seed
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(KeyFileError, match="a dangling link"):
        identity_in(tmp_path / "dangling")
    assert not (tmp_path / "nowhere").exists()


def test_a_pipe_and_a_folder_are_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path(tmp_path)):
        with pytest.raises(KeyFileError, match="not a regular file"):
            identity_in(path)
