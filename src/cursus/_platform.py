"""What differs between operating systems: memory that processes share, the cores of this machine, how to give way."""

from __future__ import annotations

import fcntl
import os
import tempfile
import time

from cursus.errors import SharedMemoryError

LINK = "/memfd:cursus (deleted)"
"""What the entry of such a file in `/proc/PID/fd` points to."""

_ZEROS = bytes(1 << 20)


def num_cores() -> int:
    """How many cores this process may use, where the system says so; otherwise all that there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def give_way() -> None:
    """Let others use this core for a moment."""
    time.sleep(0)


if hasattr(os, "sched_yield"):
    give_way = os.sched_yield  # a third of what a sleep of no time costs


def found_through_proc() -> bool:
    """Whether other processes can open an anonymous file through `/proc` (Linux)."""
    return hasattr(os, "memfd_create")


def anonymous_file(size: int) -> int:
    """The descriptor of a new file of `size` bytes, which goes with the last process that holds it.

    It can leave nothing behind, whoever is killed. Only this user may open it. On Linux it lives in memory, and nobody can cut
    off what is mapped; elsewhere it is a temporary file without a name.
    """
    try:
        if found_through_proc():
            handle = os.memfd_create("cursus", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.fchmod(handle, 0o600)
            fcntl.fcntl(handle, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
        else:
            handle, name = tempfile.mkstemp()
            os.unlink(name)
    except OSError as error:
        raise _cannot_be_had(size, error) from error
    try:
        grow(handle, size)
    except SharedMemoryError:
        os.close(handle)
        raise
    return handle


def grow(handle: int, size: int) -> None:
    """Make an anonymous file `size` bytes long: all its pages are taken now, so that a lack of memory is no SIGBUS later."""
    if size > os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
        raise SharedMemoryError(f"{size:,} bytes are more memory than this machine has.")
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(handle, 0, size)
            return
        for begin in range(os.fstat(handle).st_size, size, len(_ZEROS)):
            os.pwrite(handle, _ZEROS[: size - begin], begin)
    except OSError as error:
        raise _cannot_be_had(size, error) from error


def _cannot_be_had(size: int, error: OSError) -> SharedMemoryError:
    return SharedMemoryError(f"{size:,} bytes of shared memory cannot be had: {error.strerror}.")
