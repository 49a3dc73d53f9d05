"""Files of a run folder, whoever wrote them: read within limits and never waited for, written only inside the folder."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from types import UnionType
from typing import Any, BinaryIO, TypeAlias

from cursus.errors import LedgerError

Shape: TypeAlias = "type | UnionType | dict[Any, Shape] | list[Shape]"
"""What JSON must look like: a type (`float` for any number), `{key: shape}`, `{str: shape}` for any keys, `[shape]`."""

_MOST_BYTES = 1 << 26  # of a JSON file that is read whole
_LONGEST_LINE = 1 << 26
_BLOCK = 1 << 16
_DEEPEST = 64
_MOST_DIGITS = 20


# ---- reading


def open_regular(path: Path) -> BinaryIO:
    """A regular file, open for reading. Anything else (a pipe, a device) is an `OSError`, where reading could wait for ever."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(22, "it is not a regular file", str(path))
    return os.fdopen(handle, "rb")


def read_regular(path: Path, most: int, check: Callable[[BinaryIO, int], object] = lambda file, size: None) -> bytes:
    """The bytes of a regular file; an `OSError` if there are more than `most`.

    Args:
        path: the file.
        most: how many bytes it may have.
        check: given the file and its size before anything large is read, so that it can refuse.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise OSError(27, f"it has more than {most:,} bytes", str(path))
        check(file, size)
        file.seek(0)
        return file.read()


def read_lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file that were written to their end; a `ValueError` for one that nobody has written."""
    while line := file.readline(_LONGEST_LINE):
        if line.endswith(b"\n"):
            yield line
        elif len(line) == _LONGEST_LINE:
            raise ValueError(f"it has a line of more than {_LONGEST_LINE:,} bytes")


def end_of_lines(handle: int) -> int:
    """How long an open file is without a last line that was not written to its end; a `ValueError` if that is too long."""
    size = keep = os.fstat(handle).st_size
    while keep > 0:
        start = max(keep - _BLOCK, 0)
        end = os.pread(handle, keep - start, start).rfind(b"\n")
        if end >= 0:
            return start + end + 1
        keep = start
        if size - keep > _LONGEST_LINE:
            raise ValueError(f"it has a line of more than {_LONGEST_LINE:,} bytes")
    return 0


def read_object(path: Path, shape: dict[Any, Shape]) -> dict[str, Any]:
    """The JSON object in a file; a `ValueError` or `OSError` that says what is wrong with it."""
    found: dict[str, Any] = parse(read_regular(path, _MOST_BYTES))
    if complaint := misfit(found, shape):
        raise ValueError(complaint)
    return found


def parse(text: bytes) -> Any:
    """What JSON says; a `ValueError` if it is damaged, nested too deeply, or has an integer that nobody needs."""
    try:
        found = json.loads(text, parse_int=_integer)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    if nests_deeply(found):
        raise ValueError(_TOO_DEEP)
    return found


_TOO_DEEP = f"it is nested more than {_DEEPEST} deep"


def _integer(digits: str) -> int:
    if len(digits) > _MOST_DIGITS:
        raise ValueError(f"it has an integer of {len(digits):,} digits")
    return int(digits)


def nests_deeply(value: Any) -> bool:
    """Whether lists and objects are nested more deeply than anything that we write."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [inner for each in level for inner in _entries(each)]
        if not level:
            return False
    return True


def _entries(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()


def misfit(value: Any, shape: Shape, where: str = "") -> str | None:
    """In words, where `value` does not have a shape; None if it does.

    >>> misfit({"step": 3, "rows": [1, "two"]}, {"step": int, "rows": [float]})
    "rows[1] must be a number, got 'two'"
    """
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return f"{where or 'it'} must be an object, got {value!r:.40}"
        missing = [key for key in shape if key is not str and key not in value]
        if missing:
            return f"{where or 'it'} lacks {', '.join(missing)}"
        keys = value if str in shape else shape
        parts = [(f"{where}.{key}".lstrip("."), value[key], shape.get(key, shape.get(str))) for key in keys]
    elif isinstance(shape, list):
        if not isinstance(value, list):
            return f"{where or 'it'} must be a list, got {value!r:.40}"
        parts = [(f"{where}[{index}]", each, shape[0]) for index, each in enumerate(value)]
    else:
        return None if _is(value, shape) else f"{where or 'it'} must be {_NAMES.get(shape, shape)}, got {value!r:.40}"
    return next((found for name, each, inner in parts if (found := misfit(each, inner, name))), None)  # type: ignore[arg-type]


_NAMES: dict[Any, str] = {int: "an integer", float: "a number", str: "a string", dict: "an object", list: "a list"}
_NAMES |= {int | None: "an integer or null", float | None: "a number or null"}


def _is(value: Any, kind: Any) -> bool:
    """As JSON has it: true is no number, and an integer is one."""
    if isinstance(value, bool):
        return kind is bool
    if isinstance(value, int) and abs(value) >= 1 << 64:
        return False
    return isinstance(value, kind | int if kind in (float, float | None) else kind)


# ---- writing


def open_to_write(path: Path, flags: int) -> int:
    """A handle to a file of our own, made if there is none and only for its owner; a link or a device is a `LedgerError`.

    Args:
        path: the file.
        flags: of `os.open`, such as `os.O_WRONLY | os.O_APPEND`.
    """
    handle = -1
    try:
        handle = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(22, "it is not a regular file")
        if found.st_nlink > 1:
            raise OSError(31, "it has a second name (a hard link), whose content would change too. Copy it")
    except (OSError, ValueError) as error:
        if handle >= 0:
            os.close(handle)
        reason = "it is a link, and a run is written only inside its folder" if path.is_symlink() else error
        raise LedgerError(f"{path} cannot be opened for writing: {getattr(reason, 'strerror', reason)}.") from error
    return handle


def make_folder(path: Path) -> Path:
    """A folder inside of a run, for its owner alone, made if there is none; a link in its place is a `LedgerError`.

    Args:
        path: the folder; those above it are made as well.
    """
    try:
        if path.is_symlink():
            raise OSError(40, "it is a link, and a run is written only inside its folder")
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise LedgerError(f"the folder {path} cannot be used: {getattr(error, 'strerror', error)}.") from error
    return path
