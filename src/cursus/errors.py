"""Every error of Cursus, in one tree.

::

    CursusError
    ├── SettingsError      a setting that cannot work (also a ValueError)
    │   └── ConfigError    … found in a TOML or JSON file
    ├── TaskError          a task that is not in its space, or cannot be loaded
    ├── TicketError        a ticket that is unknown, or was settled before
    ├── TeacherError       a teacher that is closed, or was interrupted half-way through an act
    │   ├── StaleCaller    … asked by a process that a newer one has replaced at its desk
    │   ├── UnknownCaller  … asked by a process that does not sit at its desk
    │   └── DeskGone       … whose desk does not answer, or is not there any more
    ├── ResultError        a result that cannot be true: a NaN return, a success that is neither true nor false
    ├── StateError         a saved state that does not fit the curriculum it is loaded into
    ├── LedgerError        the record of a run cannot be written or read
    ├── CheckpointError    a checkpoint that is damaged, of another version, or not one of ours
    ├── DivergedError      what an agent learns is no longer made of numbers
    ├── EnvError           an environment raised an error; its own traceback is in the message
    ├── WorkerError        a worker process died or hung
    ├── SharedMemoryError  a memory between processes that is closed, damaged, not ours, or whose owner is gone
    └── MissingExtra       an optional library is not installed (also an ImportError)

    CursusWarning
    ├── CheckpointWarning  the newest checkpoint is damaged, an older one was used
    ├── LedgerWarning      events of a run are damaged or missing, and left out
    ├── ResumeWarning      something of a resumed run could not be brought back exactly
    └── MetricsWarning     a writer of metrics failed; training and the other writers go on
"""


class CursusError(Exception):
    """The root of all errors that Cursus raises on purpose."""


class SettingsError(CursusError, ValueError):
    """A setting is unknown, missing or out of range."""


class ConfigError(SettingsError):
    """A configuration file or a command-line override is wrong."""


class TaskError(CursusError, ValueError):
    """A task is not in its space, or its level cannot be loaded."""


class TicketError(CursusError, ValueError):
    """A ticket is unknown, or was settled before."""


class TeacherError(CursusError):
    """A teacher is closed, or was interrupted half-way through an act."""


class StaleCaller(TeacherError):
    """A newer process sits at the desk under the name of this one."""


class UnknownCaller(TeacherError):
    """A process does not sit at the desk, or no more: it has to join."""


class DeskGone(TeacherError):
    """A desk does not answer within its time limit, or is not there any more."""


class ResultError(CursusError, ValueError):
    """The result of an episode is missing or cannot be true."""


class StateError(CursusError, ValueError):
    """A saved state does not fit the object that should load it."""


class LedgerError(CursusError):
    """The record of a run cannot be written or read."""


class CheckpointError(CursusError):
    """A checkpoint is damaged, of another version, or no checkpoint at all."""


class CursusWarning(UserWarning):
    """The root of all warnings of Cursus."""


class CheckpointWarning(CursusWarning):
    """The newest checkpoint is damaged; an older one was used instead."""


class LedgerWarning(CursusWarning):
    """Events of a run are damaged or missing; the others are used."""


class ResumeWarning(CursusWarning):
    """Something of a resumed run could not be brought back exactly as it was."""


class MetricsWarning(CursusWarning):
    """A writer of metrics failed; training and the other writers go on."""


class DivergedError(CursusError):
    """What an agent learns is no longer made of numbers."""


class EnvError(CursusError):
    """An environment raised an error; the message holds its own traceback."""


class WorkerError(CursusError):
    """A worker process died, or did not answer within its time limit."""


class SharedMemoryError(CursusError):
    """A memory between processes is closed, damaged or not ours, or its owner is gone."""


class MissingExtra(CursusError, ImportError):
    """An optional library is needed for this and not installed."""

    def __init__(self, library: str, extra: str = "", *, install: str = "") -> None:
        """`extra` names the extras of Cursus that bring the library, `install` other arguments of `pip install`."""
        what = install or f'"cursus-rl[{extra}]"'
        super().__init__(f"{library} is not installed. Install it with: pip install {what}")

    @classmethod
    def of(cls, error: ImportError, extra: str) -> ImportError:
        """What to raise for an `error` of an import: the missing library with the `extra` that brings it, or else the error."""
        if isinstance(error, cls) or not isinstance(error, ModuleNotFoundError) or error.name is None:
            return error
        return cls(error.name.partition(".")[0].replace("_", "-"), extra)
