"""Ray: the teacher in a named actor, whose desk every process of a cluster finds, and which outlives its own death."""

from __future__ import annotations

import os
import secrets
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cursus.curricula import Curriculum
from cursus.curricula.base import check_is_curriculum
from cursus.errors import CursusError, DeskGone, MissingExtra, SettingsError
from cursus.metrics import CurriculumStatistics
from cursus.remote import Desk, DeskAddress, Given, Joined, Settled, Transport, Wanted
from cursus.remote.places import this_process
from cursus.runs import RunFolder, checkpoint, holds_run, read_notes
from cursus.settings import check_positive
from cursus.teacher import Counts, Teacher
from cursus.types import Decision, Tree
from cursus.vector.transfer import pack, pack_plain, unpack

try:
    import ray
    from ray.exceptions import ActorDiedError, GetTimeoutError, RayError, RayTaskError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ImportError as missing:
    raise MissingExtra.of(missing, "ray") from None

PATIENCE_S = 60.0
"""How long an answer of the desk is waited for, unless something else is said: a restart of its actor takes seconds."""

_NAMESPACE = "cursus"
_OPENED = "desk"
_ACTOR, _PROCESS = "actor ", "process "  # names that callers have when nobody named them
_AGAIN_S = 0.2
_PIECE, _MOST_BYTES = 64 << 10, 8 << 20  # Ray keeps arguments of up to 100 KB with an actor, and 10 MB of them

_START_AGAIN = "Every answer that it gave is in its run folder: cursus.adapters.ray.start(…, resume=True) goes on from there."

_started: dict[tuple[str, str], Any] = {}  # actors live as long as the handle of who made them


class _DeskActor:
    """The process of the teacher. After its death Ray starts it anew, and the run goes on as if nothing had been."""

    def __init__(self, run: str, opening: str, settings: dict[str, Any], *fresh: bytes) -> None:
        self._fresh, self._run, self._opening = fresh, Path(run), opening
        self._refusal: CursusError | None = None
        self._desk: Desk
        try:
            if self._was_open():
                self._sit(Teacher.resume(self._curriculum(), self._run, forward=True))
            else:
                self._open(settings)
        except CursusError as error:  # told to whoever asks: what is raised here would reach nobody as itself
            self._refusal = error

    def _was_open(self) -> bool:
        """Whether this process is a later one, and an earlier had opened the run."""
        return holds_run(RunFolder(self._run)) and any(
            note["opening"] == self._opening for note in read_notes(self._run, _OPENED)
        )

    def _open(self, settings: dict[str, Any]) -> None:
        """Begin a run, or go on with one that is there: `start` has refused it if that is not meant."""
        self._sit(Teacher(self._curriculum(), run=self._run, resume=True, **settings))
        self._lose_all_but(frozenset())

    def _curriculum(self) -> Curriculum:
        """One that was never taught."""
        curriculum: Curriculum = unpack(zlib.decompress(b"".join(self._fresh)))
        curriculum.move_here()
        return curriculum

    def _sit(self, teacher: Teacher) -> None:
        self._statistics = teacher.observe(CurriculumStatistics(teacher.curriculum))
        self._desk = Desk(teacher)
        teacher.note(_OPENED, {"opening": self._opening})
        if teacher.went_back:  # from here on a restart goes forward, also if the checkpoint is removed by newer ones
            teacher.checkpoint()
        teacher.flush()

    def _lose_all_but(self, alive: frozenset[str]) -> None:
        """Settle what processes hold that nobody named: they have ended, and nobody comes by their name again."""
        for caller in [*self._desk.callers, *self._desk.absent]:
            if caller not in alive and (caller in self._desk.callers or caller.startswith((_ACTOR, _PROCESS))):
                self._desk.lose(caller)

    def _ask(self, act: Callable[[Desk], Any]) -> Any:
        if self._refusal is not None:
            raise self._refusal
        return act(self._desk)

    # ---- what callers ask

    def join(self, caller: str, token: str) -> Joined:
        return self._ask(lambda desk: desk.join(caller, token))  # type: ignore[no-any-return]

    def exchange(self, said: bytes) -> bytes:
        return pack_plain(self._ask(lambda desk: desk.exchange(*unpack(said))))

    def leave(self, caller: str, epoch: int) -> None:
        self._ask(lambda desk: desk.leave(caller, epoch))

    # ---- what the driver asks

    def look(self, what: str) -> Any:
        looks: dict[str, Callable[[Desk], Any]] = {
            "status": lambda desk: desk.teacher.status(),
            "explain": lambda desk: desk.teacher.explain(),
            "counts": lambda desk: desk.teacher.counts,
            "decisions": lambda desk: desk.teacher.decisions,
            "withholds": lambda desk: desk.teacher.withholds,
            "callers": lambda desk: desk.callers,
            "metrics": lambda desk: self._statistics.report(),
            "progress": lambda desk: (desk.teacher.status(), self._statistics.report()),
            "desk": lambda desk: {
                "retries": desk.retries,
                "again": desk.again,
                "behind": desk.staleness.mean,
                "most_behind": desk.staleness.most,
                "pid": os.getpid(),
            },
        }
        return self._ask(looks[what])

    def checkpoint(self, caller_state: Tree) -> str:
        return str(self._ask(lambda desk: desk.teacher.checkpoint(caller_state)))

    def cut(self, caller_state: Tree) -> bytes:
        return Path(self.checkpoint(caller_state)).read_bytes()

    def go_back(self, cut: bytes) -> None:
        self._ask(lambda desk: self._go_back(desk, cut))

    def _go_back(self, desk: Desk, cut: bytes) -> None:
        # Under the name that it had: should this process die before the next checkpoint, the run goes on from this one.
        at = checkpoint.put_back(RunFolder(self._run), cut)
        alive = frozenset(desk.callers)
        desk.teacher.close()
        try:
            self._sit(Teacher.resume(self._curriculum(), self._run, at=at, forward=False))
        except CursusError:
            self._sit(Teacher.resume(self._curriculum(), self._run, forward=True))
            raise
        self._lose_all_but(alive)

    def close(self, caller_state: Tree) -> None:
        self._ask(lambda desk: desk.teacher.close(caller_state))


class _RayTransport:
    """A desk in a Ray actor: asked again, for a limited time, for as long as it is being started anew."""

    def __init__(self, address: RayAddress, patience_s: float, actor: Any = None) -> None:
        self._address, self._patience_s = address, patience_s
        self._actor = actor

    def join(self, caller: str, token: str) -> Joined:
        """As `Desk.join`."""
        return self.ask("join", caller, token)  # type: ignore[no-any-return]

    def exchange(self, caller: str, epoch: int, settled: Settled, wanted: Wanted) -> Given:
        """As `Desk.exchange`."""
        return unpack(self.ask("exchange", pack_plain((caller, epoch, settled, wanted))))  # type: ignore[no-any-return]

    def leave(self, caller: str, epoch: int) -> None:
        """As `Desk.leave`."""
        self.ask("leave", caller, epoch)

    def ask(self, act: str, *said: Any) -> Any:
        """The answer of the actor. Its own errors are raised as they are."""
        until = time.monotonic() + self._patience_s
        while True:
            try:
                self._actor = self._actor or self._find()
                return ray.get(getattr(self._actor, act).remote(*said), timeout=max(until - time.monotonic(), 0.001))
            except RayTaskError as error:
                if isinstance(error.cause, CursusError):
                    raise error.cause from None
                raise
            except GetTimeoutError:
                raise DeskGone(self._silent()) from None
            except ActorDiedError as error:  # for good
                raise DeskGone(f"{self._address} has ended. {_START_AGAIN} Ray says: {error}") from None
            except RayError as error:  # it died in this moment, or is being started anew
                if time.monotonic() > until:
                    raise DeskGone(self._silent()) from error
                self._actor = None
                time.sleep(_AGAIN_S)

    def _find(self) -> Any:
        if not ray.is_initialized():
            raise DeskGone(
                f"{self._address} is looked for in a process that is not connected to Ray. Call ray.init(address=…) there "
                "first. Child processes of a Ray worker, such as those of an AsyncVectorEnv, cannot: make the environments in "
                "one process."
            )
        try:
            return ray.get_actor(self._address.name, namespace=self._address.namespace)
        except ValueError:
            raise DeskGone(
                f"no actor of this cluster has the name of {self._address}: it was closed, or the process that started it has "
                f"ended. {_START_AGAIN}"
            ) from None

    def _silent(self) -> str:
        return (
            f"{self._address} has not answered for {self._patience_s:g} s. Its node may be gone, or its actor may fail to "
            f"start; `ray list actors` tells. {_START_AGAIN}"
        )


@dataclass(frozen=True)
class RayAddress(DeskAddress):
    """The name of a desk in a Ray cluster: small, can be pickled, and sent to every worker. It is no handle of an actor.

    Args:
        name: of the actor.
        namespace: of Ray, in which it has that name (default `"cursus"`).
        patience_s: seconds for which an answer is waited for, also while the actor is started anew; then there is a `DeskGone`
            (default 60).
    """

    name: str
    namespace: str = _NAMESPACE
    patience_s: float = PATIENCE_S

    def __post_init__(self) -> None:
        check_positive("patience_s", self.patience_s)

    def __str__(self) -> str:
        return f"the desk {self.name!r}"

    def transport(self) -> Transport:
        """How the desk is reached from here."""
        return _RayTransport(self, self.patience_s)

    def caller(self) -> str:
        """The id of the Ray actor that this process is, which it has again when Ray starts it anew; else host and process."""
        actor = ray.get_runtime_context().get_actor_id() if ray.is_initialized() else None
        return this_process() if actor is None else f"{_ACTOR}{actor}"

    def status(self) -> dict[str, Any]:
        """As `Teacher.status`."""
        return self._ask("look", "status")  # type: ignore[no-any-return]

    def explain(self) -> str:
        """As `Teacher.explain`."""
        return self._ask("look", "explain")  # type: ignore[no-any-return]

    def counts(self) -> Counts:
        """As `Teacher.counts`."""
        return self._ask("look", "counts")  # type: ignore[no-any-return]

    def decisions(self) -> list[Decision]:
        """As `Teacher.decisions`."""
        return self._ask("look", "decisions")  # type: ignore[no-any-return]

    def callers(self) -> dict[str, int]:
        """As `Desk.callers`."""
        return self._ask("look", "callers")  # type: ignore[no-any-return]

    def withholds(self) -> bool:
        """As `Teacher.withholds`."""
        return self._ask("look", "withholds")  # type: ignore[no-any-return]

    def metrics(self) -> dict[str, float]:
        """As `CurriculumStatistics.report`: the metrics of the epoch that ends here."""
        return self._ask("look", "metrics")  # type: ignore[no-any-return]

    def progress(self) -> tuple[dict[str, Any], dict[str, float]]:
        """`status` and `metrics`, asked for together."""
        return self._ask("look", "progress")  # type: ignore[no-any-return]

    def desk(self) -> dict[str, Any]:
        """How the desk fares: retries, tickets given again, how far tickets held ahead were behind, and its process."""
        return self._ask("look", "desk")  # type: ignore[no-any-return]

    def checkpoint(self, caller_state: Tree = None) -> Path:
        """As `Teacher.checkpoint`: the path, on the node of the actor.

        Args:
            caller_state: as there (default None).
        """
        return Path(self._ask("checkpoint", caller_state))

    def cut(self, caller_state: Tree) -> bytes:
        """The bytes of a checkpoint, to be saved together with a student's: a run keeps its two newest only.

        Args:
            caller_state: as for `checkpoint`; something that says which student it belongs to.
        """
        return self._ask("cut", caller_state)  # type: ignore[no-any-return]

    def go_back(self, cut: bytes) -> None:
        """Go back to a `cut` of this run, as the student did; what was recorded after it is set aside, workers may go on."""
        self._ask("go_back", cut)

    def close(self, caller_state: Tree = None) -> None:
        """Write a last checkpoint and end the actor; harmless where it has ended.

        Args:
            caller_state: as for `Teacher.close` (default None).
        """
        with suppress(DeskGone):
            self._ask("close", caller_state)
        self._end()

    def _end(self) -> None:
        _started.pop((self.namespace, self.name), None)
        until = time.monotonic() + self.patience_s
        with suppress(ValueError):  # nobody has this name any more, and it can be given again
            while time.monotonic() < until:
                ray.kill(ray.get_actor(self.name, namespace=self.namespace), no_restart=True)
                time.sleep(_AGAIN_S)

    def _ask(self, act: str, *said: Any) -> Any:
        return _RayTransport(self, self.patience_s).ask(act, *said)


def start(
    curriculum: Curriculum,
    *,
    run: str | Path,
    seed: int | None = None,
    ahead: int = 0,
    name: str | None = None,
    max_lag: int | None = None,
    resume: bool = False,
    patience_s: float = PATIENCE_S,
) -> RayAddress:
    """Start a teacher with its desk in an actor of its own, on the node of this process.

    The actor needs no CPU and is started anew whenever it dies; its run then goes forward, and nothing that it answered is
    lost. It lives until `RayAddress.close`, or until the process that called `start` ends: nothing is left behind in the
    cluster, and the run can be resumed. With the node of that process the run is gone until then, too.

    Args:
        curriculum: what decides; it travels to the actor.
        run: the run folder, on the disk of this node.
        seed: as for `Teacher` (default None).
        ahead: how many tickets an environment may hold beside the one that it plays (default 0). With 1, no reset waits for the
            desk, and its task is as many results behind as came meanwhile.
        name: of the actor (default None: the path of the run folder).
        max_lag: as for `Teacher` (default None).
        resume: whether to go on with the run in this folder, if there is one (default False); see `Teacher.resume`. Whatever
            held a ticket has ended with the earlier one, unless it comes again under a name that it was given.
        patience_s: see `RayAddress` (default 60).
    """
    check_is_curriculum(curriculum)
    if not ray.is_initialized():
        raise SettingsError("this process is not connected to Ray. Call ray.init(), or ray.init(address=…) to join a cluster.")
    folder = Path(run).resolve()
    address = RayAddress(name or str(folder), patience_s=patience_s)
    _check_is_new(address, folder, resume)
    here = NodeAffinitySchedulingStrategy(node_id=ray.get_runtime_context().get_node_id(), soft=False)
    options = {
        "num_cpus": 0,
        "max_restarts": -1,
        "max_task_retries": -1,
        "scheduling_strategy": here,
        "enable_task_events": False,
    }
    settings = {"seed": seed, "ahead": ahead, "max_lag": max_lag}
    made: Any = ray.remote(_DeskActor).options(name=address.name, namespace=address.namespace, **options)
    fresh = _pieces(curriculum)
    curriculum.claim(address)  # the one that decides is a copy in the actor: this one must not
    try:
        key = (address.namespace, address.name)
        _started[key] = actor = made.remote(str(folder), secrets.token_hex(8), settings, *fresh)
        _RayTransport(address, max(patience_s, PATIENCE_S), actor).ask("look", "counts")
    except BaseException:
        address._end()
        curriculum.release(address)
        raise
    return address


def _pieces(curriculum: Curriculum) -> list[bytes]:
    """A curriculum as arguments that travel with the actor itself.

    What is larger, Ray would put into its object store and delete after the first start: no other would succeed (ray#53727).
    """
    whole = zlib.compress(pack(curriculum), 1)
    if len(whole) > _MOST_BYTES:
        raise SettingsError(
            f"this curriculum has {len(whole):,} bytes when it is sent, Ray keeps {_MOST_BYTES:,} for an actor that may be "
            "started anew. Let its tasks name what they need, such as the path of a file, instead of holding it."
        )
    return [whole[first : first + _PIECE] for first in range(0, len(whole), _PIECE)]


def _check_is_new(address: RayAddress, folder: Path, resume: bool) -> None:
    """Refuse a second desk of one name, and a run that nobody asked to go on with."""
    try:
        ray.get_actor(address.name, namespace=address.namespace)
    except ValueError:
        pass  # nobody has this name
    else:
        raise SettingsError(f"{address} is there already. Use its address, close it, or give another name=… and run=….")
    if not resume and holds_run(RunFolder(folder)):
        raise SettingsError(f"{folder} holds a run. Give resume=True to go on with it, or another folder.")
