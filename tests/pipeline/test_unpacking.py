"""This program as a zip: it is unpacked once, whole, where nobody else can touch it, and imported from there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from time import time
from zipfile import ZIP_DEFLATED, ZipFile

import pyarrow
import pytest

from hearsay.pipeline.spark.package_zip import zip_package
from hearsay.pipeline.spark.start_from_zip import PROGRAM
from hearsay.pipeline.spark.unpacking import MOST, UNUSED_S, unpacked
from hearsay.trace.language.cache_places import programs_in
from hearsay.version import __version__

WHERE = "import hearsay, hearsay.core.registry as deep; print(hearsay.__file__); print(deep.__file__)"
COMPILING = """
from hearsay.core.rules.mesh_rules import next_heartbeat
from hearsay.trace.language.compiled_code import KeptCode
print(KeptCode("trace", ("core", "trace")).compile(next_heartbeat)(100, 10, 105))
"""
DAY_S = 24 * 3600


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> Path:
    return zip_package(tmp_path_factory.mktemp("zip"))


@pytest.fixture
def programs(tmp_path, monkeypatch) -> Path:
    """Where programs are unpacked, if it can be there; among the temporary files it cannot."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("tempfile.tempdir", str(no_folder_of_ours_alone(tmp_path)))
    return programs_in(tmp_path / "cache" / "hearsay")


def no_folder_of_ours_alone(base: Path) -> Path:
    folder = base / "temporary" / f"hearsay-cache-{os.getuid()}"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    return folder.parent


def started(archive: Path, base: Path, code: str, *also: Path, **variables: str) -> subprocess.Popen[str]:
    """A Python without site-packages that imports from the zip; nothing of this process's environment is in its."""
    environment = {
        "PYTHONPATH": os.pathsep.join(map(str, (archive, *also))),
        "XDG_CACHE_HOME": str(base / "cache"),
        "HOME": str(base / "home"),
        "TMPDIR": str(base / "temporary"),
        **variables,
    }
    return subprocess.Popen(
        [sys.executable, "-S", "-c", code], env=environment, cwd=base, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, stdin=subprocess.PIPE,
    )  # fmt: skip


def libraries() -> Path:
    return Path(pyarrow.__file__).parents[1]


def told(process: subprocess.Popen[str], code: int = 0) -> list[str]:
    said, problem = process.communicate("\n")
    assert process.returncode == code, problem
    return said.splitlines()


def test_it_is_imported_from_the_disk_and_bytecode_is_kept(archive, programs, tmp_path):
    files = told(started(archive, tmp_path, WHERE))
    (folder,) = programs.iterdir()
    assert files == [str(folder / "hearsay" / "__init__.py"), str(folder / "hearsay" / "core" / "registry.py")]
    assert [*(folder / "hearsay" / "core" / "__pycache__").glob("registry.*.pyc")]
    made = folder.stat().st_ino
    assert told(started(archive, tmp_path, WHERE)) == files
    assert [each.stat().st_ino for each in programs.iterdir()] == [made]


def test_it_is_the_same_program(archive, programs):
    package = Path(sys.modules["hearsay"].__file__).parent
    folder = unpacked(archive, PROGRAM) / "hearsay"
    for kind in ("*.py", "*.toml"):
        ours = {file.relative_to(package): file.read_bytes() for file in package.rglob(kind)}
        assert {file.relative_to(folder): file.read_bytes() for file in folder.rglob(kind)} == ours


def test_nobody_else_may_enter_whatever_the_mask_of_new_files_is(archive, programs):
    before = os.umask(0)
    try:
        folder = unpacked(archive, PROGRAM)
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o700


def test_an_installed_one_of_another_version_does_not_count(archive, tmp_path):
    installed = tmp_path / "installed" / "hearsay"
    (installed / "core").mkdir(parents=True)
    (installed / "version.py").write_text("__version__ = '0.0.1'")
    (installed / "__init__.py").write_text("from hearsay.version import __version__")
    code = "import hearsay, hearsay.version; print(hearsay.__version__, hearsay.version.__version__)"
    assert told(started(archive, tmp_path, code, installed.parent)) == [f"{__version__} {__version__}"]


def test_equal_sources_make_equal_bytes(archive, tmp_path):
    os.utime(Path(sys.modules["hearsay"].__file__))
    assert zip_package(tmp_path).read_bytes() == archive.read_bytes()


def test_many_at_once_do_each_other_no_harm(archive, programs, tmp_path):
    processes = [started(archive, tmp_path, f"input(); {WHERE}") for _ in range(4)]
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    answers = {tuple(told(process)) for process in processes}
    (folder,) = programs.iterdir()
    assert answers == {(str(folder / "hearsay" / "__init__.py"), str(folder / "hearsay" / "core" / "registry.py"))}


def test_who_is_slower_takes_what_is_there(archive, programs, tmp_path):
    """It is unpacked by another process between this one's look and the moment when its own would be put there."""
    code = f"""
import os, subprocess, sys
def other(event, arguments, begun=[]):
    if event == "os.rename" and not begun:
        begun.append(True)
        subprocess.run([sys.executable, "-S", "-c", "import hearsay"], check=True)
sys.addaudithook(other)
{WHERE}
"""
    files = told(started(archive, tmp_path, code))
    (folder,) = programs.iterdir()
    assert files[0] == str(folder / "hearsay" / "__init__.py")


def test_of_one_that_was_killed_nothing_is_used(archive, programs, tmp_path):
    code = """
import os, sys
def end(event, arguments, opened=[]):
    if event == "open" and "unfinished-" in str(arguments[0]):
        opened.append(1)
        if len(opened) == 300:
            os._exit(9)
sys.addaudithook(end)
import hearsay
"""
    told(started(archive, tmp_path, code), 9)
    (half,) = programs.iterdir()
    assert half.name.startswith("unfinished-")
    assert 100 < len([*half.rglob("*.py")]) < len(ZipFile(archive).namelist())
    files = told(started(archive, tmp_path, WHERE))
    (folder,) = set(programs.iterdir()) - {half}
    assert files[0] == str(folder / "hearsay" / "__init__.py")
    assert len([*folder.rglob("*.py"), *folder.rglob("*.toml")]) == len(ZipFile(archive).namelist()) - 1


def test_where_nothing_can_be_written_it_stays_in_the_zip(archive, programs, tmp_path):
    files = told(started(archive, tmp_path, WHERE, XDG_CACHE_HOME="/dev/null/cache"))
    assert files[0] == f"{archive}/{PROGRAM}/hearsay/__init__.py"
    assert not programs.exists()


def test_where_the_disk_is_full_it_stays_in_the_zip_and_leaves_nothing(archive, programs, tmp_path):
    code = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)); {WHERE}"
    assert told(started(archive, tmp_path, code))[0] == f"{archive}/{PROGRAM}/hearsay/__init__.py"
    assert [*programs.iterdir()] == []


def test_machine_code_lies_in_the_folder_of_the_program_and_goes_with_it(archive, programs, tmp_path):
    assert told(started(archive, tmp_path, COMPILING, libraries())) == ["110"]
    (folder,) = programs.iterdir()
    kept = [*tmp_path.rglob("*.nb[ci]")]
    assert kept
    assert all(file.is_relative_to(folder) for file in kept)
    stamps = [file.stat().st_mtime_ns for file in kept]
    assert told(started(archive, tmp_path, COMPILING, libraries())) == ["110"]
    assert [file.stat().st_mtime_ns for file in tmp_path.rglob("*.nb[ci]")] == stamps


def test_machine_code_of_what_stays_in_the_zip_is_kept_nowhere(archive, programs, tmp_path):
    """There is room for machine code, but none for programs."""
    programs.parent.mkdir(parents=True)
    programs.touch()
    (tmp_path / "home").mkdir()
    assert told(started(archive, tmp_path, COMPILING, libraries())) == ["110"]
    assert [*(tmp_path / "home").rglob("*")] == []
    assert [*tmp_path.rglob("*.nb[ci]")] == []


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701, 0o722])
def test_one_that_others_may_enter_is_not_used(archive, programs, mode):
    folder = unpacked(archive, PROGRAM)
    folder.chmod(mode)
    assert unpacked(archive, PROGRAM) is None


def test_one_of_another_user_is_not_used(archive, programs, monkeypatch):
    """Here it is us that are another user."""
    assert unpacked(archive, PROGRAM) is not None
    other = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: other)
    assert unpacked(archive, PROGRAM) is None


def test_a_link_and_a_file_in_its_place_are_not_followed(archive, programs, tmp_path):
    folder = unpacked(archive, PROGRAM)
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    assert unpacked(archive, PROGRAM) is None
    folder.unlink()
    folder.touch(mode=0o700)
    assert unpacked(archive, PROGRAM) is None


def test_names_that_lead_elsewhere_are_not_followed(archive, programs, tmp_path):
    strange = tmp_path / "strange.zip"
    strange.write_bytes(archive.read_bytes())
    with ZipFile(strange, "a", ZIP_DEFLATED) as more:
        for name in ("..", f"/{tmp_path}", f"{PROGRAM}/../../..", f"{PROGRAM}x", "hearsay"):
            more.writestr(f"{name}/out.py", "raise SystemExit('of another')")
    folder = unpacked(strange, PROGRAM)
    found = [*tmp_path.rglob("out.py")]
    assert all(file.is_relative_to(folder) for file in found)
    assert {each.name for each in programs.iterdir()} == {folder.name}


def test_what_nobody_has_used_for_a_month_goes_when_another_is_unpacked(archive, programs):
    made = {name: program(programs, name, age) for name, age in (("old", UNUSED_S + 60), ("recent", UNUSED_S - 60))}
    made["unfinished-killed"] = program(programs, "unfinished-killed", UNUSED_S + 60)
    folder = unpacked(archive, PROGRAM)
    assert set(programs.iterdir()) == {folder, made["recent"]}


def test_so_many_are_kept_and_all_that_are_in_use_today(archive, programs):
    for number in range(MOST + 2):
        program(programs, f"of today {number}", DAY_S - 60)
    program(programs, "of yesterday", DAY_S + 60)
    unpacked(archive, PROGRAM)
    names = {each.name for each in programs.iterdir()}
    assert "of yesterday" not in names
    assert len(names) == MOST + 3


def test_to_begin_to_use_it_counts_as_use(archive, programs, tmp_path):
    folder = unpacked(archive, PROGRAM)
    os.utime(folder, (time() - UNUSED_S - 60,) * 2)
    assert unpacked(archive, PROGRAM) == folder
    other = tmp_path / "other.zip"
    with ZipFile(other, "w") as packed:
        packed.writestr(f"{PROGRAM}/hearsay/__init__.py", "")
    newer = unpacked(other, PROGRAM)
    assert set(programs.iterdir()) == {folder, newer}


def program(programs: Path, name: str, age_s: float) -> Path:
    folder = programs / name
    (folder / "hearsay").mkdir(parents=True)
    os.utime(folder, (time() - age_s,) * 2)
    return folder
