"""Watching the worker processes of somebody else's vector environment."""

from __future__ import annotations

import select
import signal
import time
from contextlib import suppress
from typing import Any

from cursus.errors import WorkerError

_NAP_MS = 100


class WorkerWatch:
    """Notices that a worker of an SB3 `SubprocVecEnv` has died or hangs, before SB3 waits for it without a limit.

    It looks at process handles and pipes from outside and changes nothing. Environments without processes need no watch.
    """

    def __init__(self, venv: Any, timeout_s: float | None) -> None:
        self._processes = list(getattr(venv, "processes", ()))
        self._remotes = list(getattr(venv, "remotes", ()))
        self._timeout_s = timeout_s
        self._lost = False

    def check(self) -> None:
        """Raise if a worker is dead."""
        for place, process in enumerate(self._processes):
            if not process.is_alive():
                raise self._died(place)

    def wait(self) -> None:
        """Return when every worker has answered; raise as soon as one cannot, or the time limit is over."""
        end = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        for place, (process, remote) in enumerate(zip(self._processes, self._remotes, strict=True)):
            poll = select.poll()
            poll.register(remote.fileno(), select.POLLIN)
            poll.register(process.sentinel, select.POLLIN)
            while not remote.poll():
                woken = [handle for handle, _ in poll.poll(_NAP_MS)]
                if process.sentinel in woken and not remote.poll():
                    raise self._died(place)
                self._check_others()
                if end is not None and time.monotonic() > end:
                    self._lost = True
                    raise WorkerError(
                        f"worker {place} (pid {process.pid}) has not answered for {self._timeout_s:g} s: its environment hangs."
                    )
            if not process.is_alive():
                raise self._died(place)

    def explain(self, error: Exception) -> Exception:
        """What lies behind an error of a pipe: the death of a worker, or else the error itself."""
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            for place, process in enumerate(self._processes):
                if not process.is_alive():
                    return self._died(place)
            time.sleep(0.005)
        return error

    def _check_others(self) -> None:
        for place, (process, remote) in enumerate(zip(self._processes, self._remotes, strict=True)):
            if not process.is_alive() and not remote.poll():
                raise self._died(place)

    def _died(self, place: int) -> WorkerError:
        self._lost = True
        process = self._processes[place]
        process.join(1.0)
        code, how = process.exitcode, f"exit code {process.exitcode}"
        if code is not None and code < 0:
            with suppress(ValueError):
                how = f"killed by {signal.Signals(-code).name}"
        hint = "" if code is None or code < 0 else "; if its environment raised, the traceback is on standard error"
        return WorkerError(f"worker {place} (pid {process.pid}, environment {place}) died ({how}){hint}.")

    def close(self, venv: Any) -> None:
        """Close the vector environment; if a worker was lost, end the others first, since its own close would hang."""
        if not self._lost and all(process.is_alive() for process in self._processes):
            venv.close()
            return
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join(2.0)
        for remote in self._remotes:
            with suppress(OSError):
                remote.close()
