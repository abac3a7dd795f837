"""No file or folder is written through a symbolic link."""

from __future__ import annotations

import pytest

from hearsay.trace.folder.durable import write_durably
from hearsay.trace.folder.manifest import RunFolderError
from hearsay.trace.folder.own_folders import Holds, claim, require_ours


def test_a_file_is_not_written_in_place_of_a_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="is a link"):
        write_durably(tmp_path / "link", lambda file: None)
    assert (tmp_path / "link").is_symlink()
    assert [each.name for each in tmp_path.iterdir()] == ["link"]


def test_a_run_folder_behind_a_link_is_refused(tmp_path):
    claim(tmp_path / "run", Holds.RUN).release()
    (tmp_path / "link").symlink_to(tmp_path / "run")
    with pytest.raises(RunFolderError, match="is a link, and links are not written through"):
        require_ours(tmp_path / "link", Holds.RUN)
