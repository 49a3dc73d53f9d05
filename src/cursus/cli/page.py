"""The live page: `cursus serve`, and beside a training."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from sys import executable
from urllib.parse import quote

from rich.console import Console

from cursus.cli.runs import plain
from cursus.errors import SettingsError
from cursus.web import PageServer


def serve(console: Console, folder: Path, host: str, port: int, token: str | None) -> None:
    """Serve until interrupted."""
    ends = {signal.SIGINT, signal.SIGTERM}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # they wait until they are asked for: none is missed
    try:
        with PageServer(folder, host=host, port=port, token=token) as page:
            console.print(f"{plain(str(folder))} is shown at {page.url}", soft_wrap=True)
            if not page.local:
                console.print("Whoever has this address can look at these runs; nothing is encrypted on the way.")
            console.print("Ctrl-C ends it.")
            signal.sigwait(ends)
        console.print("ended")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def served_beside(run: Path) -> Iterator[str]:
    """A page in a process of its own, as long as something else goes on here: its address, at the run of that folder."""
    folder = run.absolute().parent
    folder.mkdir(parents=True, exist_ok=True)
    command = [executable, "-P", "-m", "cursus.web", str(folder)]
    # The page ends when its input does, also if this process is killed. A Ctrl-C here is not meant for it.
    with Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, text=True, start_new_session=True) as process:  # noqa: S603
        try:
            url = process.stdout.readline().strip() if process.stdout is not None else ""
            if not url:
                raise SettingsError(f"the page of {folder} cannot be served. Try `cursus serve {folder}`, which says why.")
            yield f"{url}#/run/{quote(run.name, safe='')}"
        finally:
            process.terminate()
