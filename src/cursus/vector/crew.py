"""The parent's side of its workers: starting, asking, waiting, noticing their death, ending them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from cursus.errors import EnvError, SettingsError, WorkerError
from cursus.vector.lines import ENDED, FAILED, MESSAGE, Command, Lines
from cursus.vector.signals import SPIN_S, Bell, nap_ms, poller, watch
from cursus.vector.worker import Handle, Setup, run_worker, unpack

_START_S = 120.0
_END_S = 2.0
_MAIL_NAP_MS = 100
MOST_TRIES = 5
"""How often in a row a worker is replaced before the run ends."""


class Worker:
    """One worker process and everything that the parent holds of it."""

    def __init__(self, setup: Setup, lines: Lines, bell: Bell, context: Any, timeout_s: float | None) -> None:
        self.setup, self._place, self._lines, self.bell, self._context = setup, setup.place, lines, bell, context
        self._requests, self._done = lines.requests.data, lines.done.data
        self.timeout_s = timeout_s
        self.first = setup.first
        self.stop = setup.first + len(setup.make_envs.content)
        self.asked_at = 0.0
        """When it was asked last."""
        self.saw_an_end = False
        """Whether an episode ended in the last step that it answered for."""
        self.steps_when_lost = 0
        """How many steps the process before this one was asked for."""
        self._start()

    def _start(self) -> None:
        self._lines.clear(self._place)
        self._own_steps, self._steps_before = 0, self._lines.steps
        self._wake = Bell(patient=True)
        self.setup.wake = Handle(self._wake.hear)
        self.connection, theirs = multiprocessing.Pipe()
        _limit_waiting(self.connection.fileno(), self.timeout_s)
        self.setup.with_parent = threading.current_thread() is threading.main_thread()
        self.process = self._context.Process(
            target=run_worker, args=(self.setup, theirs), name=f"cursus worker {self.setup.place}", daemon=True
        )
        try:
            self.process.start()
        finally:
            theirs.close()
        self._poll = poller(self.bell.hear, self.process.sentinel)
        self._mail = poller(self.connection.fileno(), self.process.sentinel)

    def await_start(self) -> None:
        """Wait until the environments are made; an `EnvError` if one of them could not be."""
        try:
            message = self._receive(_START_S, "making its environments")
        except WorkerError as error:
            if self.process.exitcode != 1:
                raise
            raise WorkerError(
                f"{error} A new process reads the main script again: in a script, make environments under "
                '`if __name__ == "__main__":`, or in this process alone with num_workers=1.'
            ) from None
        if message is not None:
            raise EnvError(f"{message}\n(in {self})")

    def restart(self) -> None:
        """Begin anew with a fresh process and fresh environments; and again, should that one be lost while it begins."""
        self.steps_when_lost = self._own_steps + self._lines.steps - self._steps_before
        for _ in range(MOST_TRIES):
            self.end()
            self._start()
            try:
                self.await_start()
            except WorkerError:
                continue
            return
        raise WorkerError(f"{self} was replaced {MOST_TRIES} times in a row and lost each time.")

    # ---- asking

    def ask(self, command: Command, packed: bytes | None = None) -> None:
        """Let the worker begin with something; some commands need `packed` arguments."""
        self.asked_at = time.monotonic()
        self._own_steps += command is Command.STEP
        self._requests[self._place] = self._lines.next_request(command)
        self.nudge()
        if packed is not None:
            with suppress(OSError):  # dead or stuck: noticed when we wait for it
                self.connection.send_bytes(packed)

    def is_done(self) -> bool:
        """Whether it has done what it was asked, or will never do anything again."""
        return self._has_answered() or self.process.exitcode is not None

    def _has_answered(self) -> bool:
        return bool(self._done[self._place] == self._requests[self._place])

    def nudge(self) -> bool:
        """Ring, should it sleep; whether it does."""
        sleeps = bool(self._lines.worker_sleeps[self._place])
        if sleeps:
            self._wake.ring()
        return sleeps

    def expect(self, sleeping: bool) -> None:
        """Say whether the parent sleeps and wants to be woken."""
        self._lines.parent_sleeps[self._place] = sleeping

    def is_late(self) -> bool:
        """Whether its time limit is over."""
        return self.timeout_s is not None and time.monotonic() - self.asked_at > self.timeout_s

    def answer(self, spin: bool) -> Any:
        """Wait until it is done; what it has to tell, or None."""
        if not watch(self._has_answered, SPIN_S if spin else 0.0):
            self._sleep_until_done()
        says = self._lines.says[self._place]
        self.saw_an_end = says & ENDED != 0
        if not says & MESSAGE:
            return None
        message = self._receive(self.timeout_s, "answering")
        if says & FAILED:
            raise EnvError(f"{message}\n(in {self})")
        return message

    def _sleep_until_done(self) -> None:
        naps = 0
        self.expect(sleeping=True)
        if self.nudge():  # it has not even begun
            self.asked_at = time.monotonic()
        try:
            while not self._has_answered():
                woken = [handle for handle, _ in self._poll.poll(nap_ms(naps))]
                naps += 1
                if self.bell.hear in woken:
                    self.bell.take_back()
                if self._has_answered():
                    return
                if self.process.sentinel in woken:
                    raise self._died()
                if self.is_late():
                    raise self._hung("working on it", self.timeout_s)
                self.nudge()
        finally:
            self.expect(sleeping=False)

    def _receive(self, timeout_s: float | None, doing: str) -> Any:
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while not self.connection.poll():
            if self.process.sentinel in [handle for handle, _ in self._mail.poll(_MAIL_NAP_MS)] and not self.connection.poll():
                raise self._died()
            if end is not None and time.monotonic() > end:
                raise self._hung(doing, timeout_s)
        try:
            return unpack(self.connection.recv_bytes())
        except BlockingIOError:
            raise self._hung(doing, timeout_s) from None
        except (EOFError, ConnectionResetError):
            raise self._died() from None

    # ---- ending

    def _died(self) -> WorkerError:
        self.process.join(_END_S)
        code = self.process.exitcode
        how = f"exit code {code}"
        if code is not None and code < 0:
            with suppress(ValueError):
                how = f"killed by {signal.Signals(-code).name}"
            if code == -signal.SIGKILL:
                how += ", by hand or because memory ran out"
        return WorkerError(f"{self} died ({how}).")

    def _hung(self, doing: str, limit_s: float | None) -> WorkerError:
        found = WorkerError(f"{self} has not answered for {limit_s or 0:g} s while {doing}. It was ended.")
        self.end()
        return found

    def finish(self, deadline: float) -> None:
        """Give it until then to do what it was asked."""
        while not self.is_done() and time.monotonic() < deadline:
            self.nudge()
            time.sleep(0.001)

    def end(self) -> None:
        """End the process, whatever it is doing."""
        with suppress(OSError, ValueError):
            self.process.kill()
        self.process.join(_END_S)
        self.connection.close()
        self._wake.close()

    def __str__(self) -> str:
        return f"worker {self.setup.place} (pid {self.process.pid}, environments {self.first} to {self.stop - 1})"


def wait_for_any(groups: Mapping[int, Sequence[Worker]], spin: bool) -> int:
    """The first of these groups that is done, or in which something went wrong."""
    crew = [worker for group in groups.values() for worker in group]
    sleep = poller(crew[0].bell.hear, *(worker.process.sentinel for worker in crew))
    end, naps = time.perf_counter() + (SPIN_S if spin else 0.0), 0
    while True:
        for name, group in groups.items():
            if all(worker.is_done() or worker.is_late() for worker in group):
                return name
        if time.perf_counter() < end:
            os.sched_yield()
            continue
        for worker in crew:
            worker.expect(sleeping=True)
        if not any(all(worker.is_done() for worker in group) for group in groups.values()):
            sleep.poll(nap_ms(naps))
            crew[0].bell.take_back()
            naps += 1
        for worker in crew:
            worker.expect(sleeping=False)
            if not worker.is_done():
                worker.nudge()


def _limit_waiting(handle: int, timeout_s: float | None) -> None:
    """Let no message to or from a stuck process take longer than this."""
    if timeout_s is not None:
        limit = struct.pack("ll", int(timeout_s), int(timeout_s % 1 * 1e6))
        with socket.socket(fileno=os.dup(handle)) as end:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)


def context_of(start_method: str | None) -> Any:
    """How processes are started; by default from a server process, which is safe beside threads and torch."""
    methods = multiprocessing.get_all_start_methods()
    chosen = start_method or ("forkserver" if "forkserver" in methods else "spawn")
    if chosen not in methods:
        raise SettingsError(f"start_method={chosen!r} is not possible here. Allowed: {', '.join(methods)}.")
    return multiprocessing.get_context(chosen)


def close_all(workers: Iterable[Worker]) -> None:
    """End all of them: first together, then one by one."""
    crew: Sequence[Worker] = list(workers)
    for worker in crew:
        with suppress(OSError, ValueError):
            worker.process.kill()
    for worker in crew:
        worker.end()
