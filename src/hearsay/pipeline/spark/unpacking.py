"""A program that came as a zip, unpacked once for each user of a host.

Of what is imported from a zip Python keeps no bytecode, and there are no sources to see whether machine code that was
kept is of the same ones. So the zip is unpacked into a folder of the user's cache (`cache_places.py`) that is named
after its bytes and appears whole; machine code comes into the same folder. What lies there is run: the folder is this
user's, and nobody else may enter it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from time import time
from zipfile import BadZipFile, ZipFile

from hearsay.trace.language.cache_places import cache_places, programs_in, require_own_folder

UNFINISHED = "unfinished-"
UNUSED_S = 30 * 24 * 3600
"""What nobody has begun to use for so long is removed when another program is unpacked."""
MOST = 8
"""So many are kept, the last ones, beside those that somebody began to use within a day."""
_DAY_S = 24 * 3600


def unpacked(archive: Path, inside: str) -> Path | None:
    """Where on the disk the files are that the zip has in its folder `inside`; None if they can be nowhere."""
    if not archive.is_file():
        return None
    name = blake2b(archive.read_bytes(), digest_size=16).hexdigest()
    for place in cache_places():
        with suppress(OSError, BadZipFile):
            folder = programs_in(place) / name
            if not folder.exists():
                _unpack(archive, inside, folder)
            with suppress(OSError):  # where nothing can be written any more, nothing is removed either
                os.utime(folder)
            require_own_folder(folder)
            return folder
    return None


def _unpack(archive: Path, inside: str, folder: Path) -> None:
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _remove_unused(folder.parent)
    with TemporaryDirectory(prefix=UNFINISHED, dir=folder.parent) as work:
        with ZipFile(archive) as packed:
            packed.extractall(work)
        whole = Path(work, inside)
        whole.chmod(0o700)
        try:
            whole.rename(folder)
        except OSError:
            if not folder.is_dir():  # it is one if another process was faster
                raise


def _remove_unused(programs: Path) -> None:
    ages: dict[Path, float] = {}
    for folder in programs.iterdir():
        with suppress(OSError):  # another process may be done with it
            ages[folder] = time() - folder.lstat().st_mtime
    for position, folder in enumerate(sorted(ages, key=ages.__getitem__)):
        if ages[folder] > UNUSED_S or (position >= MOST and ages[folder] > _DAY_S):
            _remove(folder)


def _remove(folder: Path) -> None:
    """At once, so that nobody finds half of it."""
    with (
        suppress(OSError),
        TemporaryDirectory(prefix=UNFINISHED, dir=folder.parent, ignore_cleanup_errors=True) as work,
    ):
        folder.rename(Path(work, folder.name))
