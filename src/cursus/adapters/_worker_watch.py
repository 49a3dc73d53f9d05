"""Detects dead or hung workers of Stable-Baselines3's `SubprocVecEnv`."""

from __future__ import annotations

import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from cursus.errors import WorkerError

_NAP_MS = 50
_PATIENCE_S = 1.0


class WorkerWatch:
    """Notices that a worker of an SB3 `SubprocVecEnv` has died or hangs, while SB3 waits for it without a limit.

    Whatever is done to the vector environment is done under `guard()`. Meanwhile a thread looks at the process handles. When
    one of them dies, or the time limit is over, it ends the other workers too: then every pipe breaks, SB3's wait ends
    with an error, and that error is told as what it was. Environments without processes need no watch.
    """

    def __init__(self, venv: Any, timeout_s: float | None) -> None:
        self._processes = list(getattr(venv, "processes", ()))
        self._timeout_s = timeout_s
        self._cause: WorkerError | None = None
        self._since: float | None = None
        self._begun = threading.Event()
        self._over = False
        if self._processes:
            threading.Thread(target=self._look, name="cursus watch", daemon=True).start()

    def guarded(self, act: Callable[..., Any]) -> Callable[..., Any]:
        """`act` under `guard`; itself where there is nothing to watch."""
        return self.guard()(act) if self._processes else act

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Do something that waits for workers."""
        if not self._processes:
            yield
            return
        if self._cause is not None:
            raise self._cause
        self._since = time.monotonic()
        self._begun.set()
        try:
            yield
        except (EOFError, OSError) as error:
            raise self._explain() or error from None
        finally:
            self._begun.clear()
            self._since = None

    def _look(self) -> None:
        poll = select.poll()
        for process in self._processes:
            poll.register(process.sentinel, select.POLLIN)
        while not self._over:
            self._begun.wait()
            dead = poll.poll(_NAP_MS)
            since = self._since
            if since is None or self._over:
                continue
            if dead:
                self._end(self._died())
            elif self._timeout_s is not None and time.monotonic() - since > self._timeout_s:
                self._end(WorkerError(f"no answer for {self._timeout_s:g} s: an environment hangs in one of {self._names()}."))

    def _end(self, cause: WorkerError) -> None:
        self._cause = cause
        self._over = True
        for process in self._processes:
            process.kill()

    def _explain(self) -> WorkerError | None:
        """What lies behind an error of a pipe: the death of a worker, if there was one."""
        end = time.monotonic() + _PATIENCE_S
        while self._cause is None and time.monotonic() < end:
            time.sleep(0.005)
        return self._cause

    def _died(self) -> WorkerError:
        index, process = next((p, each) for p, each in enumerate(self._processes) if not _alive(each))
        code, how = process.exitcode, f"exit code {process.exitcode}"
        if code is not None and code < 0:
            with suppress(ValueError):
                how = f"killed by {signal.Signals(-code).name}"
        hint = "" if code is None or code < 0 else "; if its environment raised, the traceback is on standard error"
        return WorkerError(f"worker {index} (pid {process.pid}, environment {index}) died ({how}){hint}.")

    def _names(self) -> str:
        return ", ".join(f"worker {index} (pid {each.pid})" for index, each in enumerate(self._processes[:8]))

    def close(self, venv: Any) -> None:
        """Close the vector environment; after a loss only what is left of it, since its own close would hang."""
        if self._cause is None:
            with suppress(WorkerError), self.guard():
                venv.close()
        self._over = True
        self._begun.set()
        for process in self._processes:
            if self._cause is not None:
                process.kill()
            process.join(_PATIENCE_S)


def _alive(process: Any) -> bool:
    """Whether a process still runs, seen by its handle: its exit code may come a moment later."""
    poll = select.poll()
    poll.register(process.sentinel, select.POLLIN)
    if not poll.poll(0):
        return True
    process.join(_PATIENCE_S)
    return False
