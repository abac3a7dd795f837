"""A report as a file: it appears whole, and takes no other file's place than that of a report of ours."""

from __future__ import annotations

from pathlib import Path
from stat import S_ISREG

from hearsay.report.errors import ReportError
from hearsay.trace.folder.durable import DurableFile, write_durably

GENERATOR = '<meta name="generator" content="hearsay">'
"""Stands in the head of every report."""
_FOOTER_OF_0_1 = b"<footer>Written by hearsay "
_BEGINNING = b'<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8">'
_LOOKED_AT = 1024
_LARGEST_OF_0_1 = 64 << 20


def require_report_or_nothing(path: Path) -> None:
    """Raise if another file, or anything else, is where a report shall be written."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise ReportError(f"{path}: cannot write the report ({error.strerror})") from None
    if not S_ISREG(status.st_mode):
        raise ReportError(f"{path}: is no plain file, and is left alone; choose another --out")
    if not _is_report(path):
        raise ReportError(f"{path}: is there and is no report of hearsay's; choose another --out or remove it")


def write_report_file(path: Path, html: str) -> None:
    require_report_or_nothing(path)
    write_whole(path, html)


def make_folder(path: Path) -> None:
    """Make the folder of a report's pictures, unless it is there."""
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise ReportError(f"{path}: cannot write the pictures ({error.strerror})") from None


def write_whole(path: Path, text: str) -> None:
    """The file appears whole or not at all."""
    data = text.encode("utf-8", "backslashreplace")

    def fill(file: DurableFile) -> None:
        file.write(data)

    try:
        write_durably(path, fill)
    except OSError as error:
        raise ReportError(f"{path}: cannot write the report ({error.strerror or error})") from error


def _is_report(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(_LOOKED_AT)
            if not head.startswith(_BEGINNING):
                return False
            return GENERATOR.encode() in head or _FOOTER_OF_0_1 in head + file.read(_LARGEST_OF_0_1)
    except OSError:
        return False
