"""Reports as files: each appears whole, and replaces only a report of Hearsay."""

from __future__ import annotations

from pathlib import Path
from stat import S_ISREG

from hearsay.text.escape import one_line
from hearsay.trace.folder.durable import DurableFile, write_durably
from hearsay.user_errors import Failure

GENERATOR = '<meta name="generator" content="hearsay">'
"""Element in the head of every report."""
_FOOTER_OF_0_1 = b"<footer>Written by hearsay "
_BEGINNING = b'<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8">'
_HEAD_BYTES = 1024
_MAX_BYTES_OF_0_1 = 64 << 20


class ReportError(Failure):
    """A run without a report, or a report that cannot be written. The text names the path."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


def require_report_or_nothing(path: Path) -> None:
    """Raise `ReportError` if something other than a report is at a path."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise ReportError(f"{path}: cannot write the report ({error.strerror})") from None
    if not S_ISREG(status.st_mode):
        raise ReportError(f"{path}: is not a regular file; choose another --out")
    if not _is_report(path):
        raise ReportError(f"{path}: exists and is not a report of Hearsay; choose another --out or remove it")


def write_report_file(path: Path, html: str) -> None:
    require_report_or_nothing(path)
    write_text(path, html)


def make_folder(path: Path) -> None:
    """Make the folder for the pictures of a report."""
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise ReportError(f"{path}: cannot write the pictures ({error.strerror})") from None


def write_text(path: Path, text: str) -> None:
    """Write a file that appears whole or not at all."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"), "report")


def write_bytes(path: Path, data: bytes, what: str) -> None:
    """Write a file that appears whole or not at all; `what` names it in an error."""

    def fill(file: DurableFile) -> None:
        file.write(data)

    try:
        write_durably(path, fill)
    except OSError as error:
        raise ReportError(f"{path}: cannot write the {what} ({error.strerror or error})") from None


def _is_report(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
            if not head.startswith(_BEGINNING):
                return False
            return GENERATOR.encode() in head or _FOOTER_OF_0_1 in head + file.read(_MAX_BYTES_OF_0_1)
    except OSError:
        return False
