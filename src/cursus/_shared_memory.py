"""Anonymous shared memory: a file without a name that lives in memory, for vector environments and remote workers."""

from __future__ import annotations

import fcntl
import os
import tempfile

from cursus.errors import SharedMemoryError

LINK = "/memfd:cursus (deleted)"
"""What the entry of such a file in `/proc/PID/fd` points to."""


def found_through_proc() -> bool:
    """Whether other processes can open such a file through `/proc` (Linux)."""
    return hasattr(os, "memfd_create")


def anonymous_file(size: int) -> int:
    """The descriptor of a new file of `size` bytes, which goes with the last process that holds it.

    It can leave nothing behind, whoever is killed. All its pages are taken at once, so that a lack of memory is an error
    here and not a SIGBUS later; only this user may open it, and nobody can cut off what is mapped.
    """
    if size > os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
        raise SharedMemoryError(f"{size:,} bytes are more memory than this machine has.")
    handle = -1
    try:
        if found_through_proc():
            handle = os.memfd_create("cursus", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.fchmod(handle, 0o600)
            os.posix_fallocate(handle, 0, size)
            fcntl.fcntl(handle, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL)
        else:
            handle, name = tempfile.mkstemp()
            os.unlink(name)
            os.ftruncate(handle, size)
    except OSError as error:
        if handle >= 0:
            os.close(handle)
        raise SharedMemoryError(f"{size:,} bytes of shared memory cannot be had: {error.strerror}.") from error
    return handle
