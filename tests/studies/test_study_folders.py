"""The folder of a study: stored results, damaged and temporary files, and folders of other programs."""

from __future__ import annotations

import pytest

from hearsay.studies.checked_file import StudyFolderError
from hearsay.studies.packs import Task, failed
from hearsay.studies.results import MANY_FILES, StudyFolder
from hearsay.trace.folder.durable import DurableFile


def row(number: int, error: str | None = None) -> dict:
    made = failed(Task(f"p-{number}", "p", number, "", (), "auto", False), "it died")
    return {**made, "error": error, "deliver": number, "latency_p50_ms": number / 3}


def test_many_files_become_one(tmp_path):
    folder = StudyFolder.open(tmp_path / "out")
    for number in range(MANY_FILES + 1):
        folder.add([row(number)])
    first = folder.results()
    assert len(list((tmp_path / "out" / "results").iterdir())) == 1
    assert folder.results() == first
    assert [first[f"p-{number}"]["latency_p50_ms"] for number in (1, 200)] == [1 / 3, 200 / 3]


def test_a_success_counts_before_and_after_a_failure(tmp_path):
    folder = StudyFolder.open(tmp_path / "out")
    folder.add([row(1, "it died"), row(2)])
    folder.add([row(1)])
    folder.add([row(2, "it died")])
    assert [each["error"] for each in folder.results().values()] == [None, None]


def test_a_damaged_file_is_named_and_its_runs_are_not_there(tmp_path):
    folder = StudyFolder.open(tmp_path / "out")
    folder.add([row(1)])
    (file,) = (tmp_path / "out" / "results").iterdir()
    folder.add([row(2)])
    file.write_bytes(file.read_bytes()[:-9])
    assert set(folder.results()) == {"p-2"}
    assert folder.damaged == [file]


def test_opening_a_folder_removes_the_temporary_files_of_a_killed_process(tmp_path):
    StudyFolder.open(tmp_path / "out").close()
    names = ("scenarios/p.toml", "results/r.parquet", "tables/t.parquet")
    left = [DurableFile(tmp_path / "out" / name) for name in names]
    notes = tmp_path / "out" / "scenarios" / ".notes.tmp"
    notes.touch()
    assert all(file.temporary.exists() for file in left)
    StudyFolder.open_for_reading(tmp_path / "out")
    assert all(file.temporary.exists() for file in left)
    StudyFolder.open(tmp_path / "out").close()
    assert not any(file.temporary.exists() for file in left)
    assert notes.exists()
    for file in left:
        file.discard()


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "letter.txt").write_text("Hello …")
    with pytest.raises(StudyFolderError, match="is not empty and not the folder of a study; choose another"):
        StudyFolder.open(tmp_path / "letters")
    with pytest.raises(StudyFolderError, match="is not a folder; choose another path"):
        StudyFolder.open(tmp_path / "letters" / "letter.txt")
