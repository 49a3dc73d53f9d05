"""Errors of acts that do not fit the moment: in the tree of Cursus, and those that users of Gymnasium's environments catch."""

from __future__ import annotations

import multiprocessing

from gymnasium.error import AlreadyPendingCallError, ClosedEnvironmentError, NoAsyncCallError

from cursus.errors import SettingsError


class Closed(SettingsError, ClosedEnvironmentError):
    """The environments were closed."""


class AlreadyPending(SettingsError, AlreadyPendingCallError):
    """A step or a reset is under way: `pending`, while somebody asks for another `act`."""

    def __init__(self, act: str, pending: str) -> None:
        Exception.__init__(
            self,
            f"Calling `{act}` while waiting for a pending call to `{pending}` to complete: call {pending}_wait() first.",
        )
        self.name = pending


class NotPending(SettingsError, NoAsyncCallError):
    """What is waited for, `"step"` or `"reset"`, was never begun."""

    def __init__(self, act: str) -> None:
        Exception.__init__(self, f"Calling `{act}_wait` without any prior call to `{act}_async`.")
        self.name = act


class StillPending(multiprocessing.TimeoutError, TimeoutError):
    """What is waited for has not ended in time; it goes on."""
