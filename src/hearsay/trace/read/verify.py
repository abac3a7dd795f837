"""The comparison of a run folder with its manifest.

Every file is hashed, and every trace file is opened and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import file_digest
from pathlib import Path

from hearsay.foreign_files import open_regular
from hearsay.trace.folder.arrow import open_trace_file
from hearsay.trace.folder.manifest import Manifest, OtherFile, TraceFile, load_manifest
from hearsay.trace.language.errors import RunFolderError
from hearsay.trace.language.schema import CLASSES, class_folder


def verify(path: Path) -> list[str]:
    """Return the problems of the run in `path`, one line each. Raises `RunFolderError` without a usable manifest."""
    manifest = load_manifest(path)
    problems = [*_changed(path, manifest), *_unlisted(path, manifest)]
    if problems:
        return problems
    return list(_wrong_contents(path, manifest))


def other_sizes(path: Path, manifest: Manifest) -> list[str]:
    """Return a line for each file that is missing, or whose size differs from the manifest. No file is read."""
    found = ((file.name, _size_problem_of(path / file.name, file)) for file in manifest.trace.files)
    return [f"{name}: {problem}" for name, problem in found if problem is not None]


def _changed(path: Path, manifest: Manifest) -> Iterator[str]:
    for file in (*manifest.trace.files, *manifest.others):
        problem = _problem_of(path / file.name, file)
        if problem is not None:
            yield f"{file.name}: {problem}"


def _problem_of(path: Path, file: TraceFile | OtherFile) -> str | None:
    problem = _size_problem_of(path, file)
    if problem is not None:
        return problem
    try:
        with open_regular(path) as opened:
            if file_digest(opened, "sha256").hexdigest() != file.sha256:
                return "changed, its checksum differs"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return None


def _size_problem_of(path: Path, file: TraceFile | OtherFile) -> str | None:
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return "missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return None if size == file.bytes else f"changed, {size} bytes instead of {file.bytes}"


def _unlisted(path: Path, manifest: Manifest) -> Iterator[str]:
    listed = {file.name for file in manifest.trace.files}
    for trace_class in CLASSES:
        for file in sorted((path / class_folder(trace_class)).glob("part-*.parquet")):
            name = f"{class_folder(trace_class)}/{file.name}"
            if name not in listed:
                yield f"{name}: not in the manifest"


def _wrong_contents(path: Path, manifest: Manifest) -> Iterator[str]:
    for file in manifest.trace.files:
        try:
            opened = open_trace_file(path / file.name)
        except RunFolderError as error:
            yield str(error)
            continue
        rows = int(opened.metadata.num_rows)
        if rows != file.rows:
            yield f"{file.name}: {rows} rows instead of {file.rows}"
    total = sum(file.rows for file in manifest.trace.files)
    if manifest.complete and total != manifest.trace.rows:
        yield f"the files hold {total} rows, the manifest says {manifest.trace.rows}"
