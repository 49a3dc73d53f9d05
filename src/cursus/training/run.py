"""A whole training from a configuration: environments, agent, opponents, evaluations, and a run folder."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from cursus._files import Shape, make_folder, read_object
from cursus.agents import Agent
from cursus.errors import ConfigError, CursusError, SettingsError
from cursus.runs.checkpoint import write_atomically
from cursus.settings import check_count
from cursus.tasks import Discrete, Levels, Task
from cursus.training.build import build_curriculum, external_names, make_env, success_of
from cursus.training.callbacks import Training, reading_state
from cursus.training.evaluate import GameEnv, PlannedGame, Tasks
from cursus.training.evaluations import LAST, Evaluation, Evaluations
from cursus.training.hockey import Mirror, hockey_score, hockey_tasks
from cursus.training.loop import train_agent
from cursus.training.opponents import Opponents, PlayerViews
from cursus.training.plan import Plan, read_plan
from cursus.vector import make_vec
from cursus.vector.task_interface import TaskInterface

if TYPE_CHECKING:
    from cursus.training.sb3 import SB3Learner

RECORD = "train.json"
_SCHEMA = 1
_RECORD: dict[Any, Shape] = {"schema": int, "plan": dict, "num_envs": int, "device": str}
_MOST_ENVS = 1 << 16
_DEVICE = re.compile(r"(cpu|cuda|mps)(:[0-9]{1,3})?")


@dataclass(frozen=True)
class TrainResult:
    """What came of a training."""

    run: Path
    """The run folder."""
    steps: int
    """Steps of environments, over all of them."""
    episodes: int
    """Episodes that have finished."""
    updates: int
    """Gradient steps."""
    mean_return: float
    """Of the last 100 episodes."""
    completed: bool
    """Whether the curriculum was completed."""
    evaluations: list[Evaluation] = field(default_factory=list)
    """Those of this call, oldest first."""

    @property
    def run_name(self) -> str:
        """The name of the run folder."""
        return self.run.name


def train(
    config: str | Path | Mapping[str, Any] | None = None,
    *,
    num_envs: int | None = None,
    device: str | None = None,
    run: str | Path | None = None,
    resume: str | Path | None = None,
    settings: Sequence[str] = (),
    algo: str | None = None,
    num_workers: int | None = None,
    trust: bool = False,
    on_begin: Callable[[Plan, Path], None] = lambda plan, run: None,
    on_report: Callable[[Training, Evaluation | None], None] = lambda training, evaluation: None,
) -> TrainResult:
    """Train as a configuration says.

    Args:
        config: a TOML or JSON file, or a mapping of what would be in one (default None, with `resume`).
        num_envs: number of environments, at least 1; it changes the speed and nothing else (default 8).
        device: of PyTorch, such as `"cpu"` or `"cuda"` (default `"cpu"`).
        run: the run folder (default a new one under `runs/`).
        resume: a run folder to go on in, from its newest checkpoint and exactly as if it had never been stopped; then only
            `settings`, `device` and `num_workers` may be given beside it (default None).
        settings: changes of the configuration such as `"training.steps=1000"` (default none).
        algo: replaces the table `agent`: `"DDDQN"`, `"SAC"`, or an algorithm of Stable-Baselines3 such as
            `"sb3:PPO"` (default None: the table decides).
        num_workers: worker processes, as in `cursus.make_vec` (default None).
        trust: whether a resumed run may have code imported that it names, such as the module of its environment: only for
            runs whose origin is known (default False: that is an error). What `config` names needs no trust.
        on_begin: called with plan and run folder when everything is made.
        on_report: called after every row of metrics with how the training stands, and the newest evaluation if there is one.
    """
    with ExitStack() as stack:
        if resume:
            if run is not None:
                raise SettingsError(f"a resumed run stays in its folder {resume}: leave out run={str(run)!r}.")
            job = _Job.resumed(resume, config, num_envs, device, settings, algo, trust=trust)
        else:
            job = _Job.new(config, num_envs, device, run, settings, algo)
        stack.enter_context(_one_thread(job.device))
        made = job.prepare(num_workers, stack)
        on_begin(job.plan, job.run)
        return made.go(on_report)


@dataclass
class _Job:
    """What is to be done, and where."""

    plan: Plan
    spec: dict[str, Any]
    num_envs: int
    device: str
    run: Path
    is_resumed: bool

    @classmethod
    def new(
        cls, config: Any, num_envs: int | None, device: str | None, run: Any, settings: Sequence[str], algo: str | None
    ) -> _Job:
        if config is None:
            raise SettingsError("give a configuration, or resume=… the folder of a run.")
        plan, spec = read_plan(config, settings, algo=algo)
        name = "train" if isinstance(config, Mapping) else Path(config).stem
        return cls(plan, spec, 8 if num_envs is None else num_envs, device or "cpu", _folder(run, name), is_resumed=False)

    @classmethod
    def resumed(
        cls,
        run: str | Path,
        config: Any,
        num_envs: int | None,
        device: str | None,
        settings: Sequence[str],
        algo: str | None,
        *,
        trust: bool,
    ) -> _Job:
        record = read_record(run)
        if config is not None or algo is not None or num_envs not in (None, record["num_envs"]):
            raise SettingsError(f"{run} goes on as it began, with {record['num_envs']} environments and its own configuration.")
        plan, spec = plan_of(run, settings, trust=trust)
        if plan.seed != read_plan(record["plan"])[0].seed:
            raise SettingsError(f"{run} goes on with the seed that it began with.")
        return cls(plan, spec, record["num_envs"], device or record["device"], Path(run), is_resumed=True)

    def __post_init__(self) -> None:
        check_count("num_envs", self.num_envs)
        if self.num_envs > _MOST_ENVS:
            raise SettingsError(f"num_envs={self.num_envs:,} is too many: at most {_MOST_ENVS:,}.")
        try:
            if not _DEVICE.fullmatch(self.device):
                raise RuntimeError("it is not known")
            torch.empty(0, device=self.device)
        except (RuntimeError, AssertionError) as error:
            why = str(error).splitlines()[0].rstrip(".")
            raise SettingsError(f"device={self.device!r} cannot be used here: {why}. Use cpu, or cuda with a GPU.") from None

    def prepare(self, num_workers: int | None, stack: ExitStack) -> _Prepared:
        """Everything that is needed, made before anything is written; so errors come first."""
        plan = self.plan
        curriculum = build_curriculum(plan)
        external = external_names(curriculum)
        env = partial(make_env, plan.environment, discrete=plan.agent.discrete, external=external)
        first = env()
        views = PlayerViews(first.observation_space, first.action_space, players=2 if external else 1)
        first.close()
        agent = plan.agent.make(views, num_envs=self.num_envs, device=self.device, seed=plan.seed, training=plan.training)
        opponents = None
        if external and isinstance(agent, Agent):
            opponents = Opponents(
                agent,
                external,
                self.num_envs,
                blank=views.blank(self.num_envs),
                run=self.run,
                seed=plan.seed,
                deterministic=plan.training.deterministic_opponents,
            )
        if plan.training.mirror:
            if not isinstance(agent, Agent):
                raise ConfigError("training.mirror is for DDDQN and SAC. Give --set training.mirror=false with others.")
            agent.augment = _mirror(plan)
        self._try_evaluation()
        score = hockey_score if plan.plays_hockey else None
        envs = make_vec(
            env,
            self.num_envs,
            curriculum=curriculum,
            run=self.run,
            resume=self.is_resumed,
            seed=plan.seed,
            score=score,
            set_task="ignore" if plan.environment.ignore_task else None,
            num_workers=num_workers,
            autoreset="same_step",
            seed_episodes=True,
            success=success_of(plan.environment),
        )
        stack.callback(envs.close)
        if not self.is_resumed:
            self.write_record()
        if opponents is not None:
            opponents.keep_chosen()
        return _Prepared(self, envs, agent, opponents, stack)

    def write_record(self) -> None:
        """How this training is configured, for whoever resumes it or looks at it."""
        record = {"schema": _SCHEMA, "plan": self.spec, "num_envs": self.num_envs, "device": self.device}
        write_atomically(self.run / RECORD, json.dumps(record, indent=2).encode())

    def _try_evaluation(self) -> None:
        """Begin every game that will be evaluated, so that a wrong one is found now."""
        env = make_env(self.plan.environment, discrete=self.plan.agent.discrete)
        try:
            for name, variants in evaluation_tasks(self.plan).items():
                for params in variants:
                    try:
                        GameEnv(env, TaskInterface(Discrete(1))).begin(PlannedGame(name, 0, Task(0, name, params), None))
                    except (CursusError, KeyError, TypeError, ValueError) as error:
                        raise ConfigError(f"evaluation.tasks.{name}: {error}") from error
        finally:
            env.close()


@dataclass
class _Prepared:
    """Everything is made; it can begin."""

    job: _Job
    envs: Any
    agent: Agent | SB3Learner
    opponents: Opponents | None
    stack: ExitStack

    def go(self, on_report: Callable[[Training, Evaluation | None], None]) -> TrainResult:
        plan, run = self.job.plan, self.job.run
        evaluations = self._evaluations()
        plans = plan.training
        common: dict[str, Any] = {
            "steps": plans.steps,
            "minutes": plans.minutes,
            "report_every": plans.report_every,
            "checkpoint_every": plans.checkpoint_every,
            "seed": plan.seed,
            "run": run,
            "clear_buffer_before": [phase.name for phase in plan.phases[1:] if phase.clear_buffer],
            "callbacks": [] if evaluations is None else [evaluations],
            "on_report": lambda now: on_report(now, None if evaluations is None else evaluations.latest),
        }
        begun = _Begun(self.job.write_record)
        common["callbacks"].append(begun)
        try:
            result = self._learn(common)
        except (KeyboardInterrupt, SystemExit):
            if begun:
                self._save_last()
            raise
        self._save_last()
        if evaluations is not None:
            evaluations.finish(result.steps)
        done = [] if evaluations is None else evaluations.done
        return TrainResult(run, result.steps, result.episodes, result.updates, result.mean_return, result.completed, done)

    def _save_last(self) -> None:
        folder = make_folder(self.job.run / "weights")
        self.agent.freeze().save(folder / LAST)

    def _learn(self, common: dict[str, Any]) -> Training:
        if not isinstance(self.agent, Agent):
            from cursus.training.sb3 import train_sb3

            return train_sb3(self.envs, self.agent, **common)
        plans = self.job.plan.training
        ratio, starts = plans.updates_per_env_step, plans.learning_starts
        return train_agent(
            self.envs, self.agent, updates_per_env_step=ratio, learning_starts=starts, opponents=self.opponents, **common
        )

    def _evaluations(self) -> Evaluations | None:
        plan = self.job.plan
        tasks = evaluation_tasks(plan)
        if not tasks:
            return None
        teacher = self.envs.teacher
        with reading_state():
            resumed_at = -1 if teacher.caller_state is None else int(teacher.caller_state["steps"])
        env = partial(make_env, plan.environment, discrete=plan.agent.discrete)
        chosen: dict[str, Any] = {"every": plan.evaluation.every, "games": plan.evaluation.games, "seed": plan.seed}
        background = plan.evaluation.background
        found = Evaluations(
            self.agent,
            self.job.run,
            env,
            tasks,
            **chosen,
            background=background,
            resumed_at=resumed_at,
            success=success_of(plan.environment),
        )
        self.stack.callback(found.close)
        return found


class _Begun:
    """Knows whether a step was done: before it, agent and settings are not yet known to be those of the run."""

    def __init__(self, at_first: Callable[[], None]) -> None:
        self._begun = False
        self._at_first = at_first

    def __bool__(self) -> bool:
        return self._begun

    def after_step(self, steps: int, save: Callable[[], Path | None]) -> dict[str, float]:
        """A step was done."""
        if not self._begun:
            self._begun = True
            self._at_first()
        return {}


def evaluation_tasks(plan: Plan) -> Tasks:
    """What a policy of this plan is evaluated in."""
    if plan.evaluation.tasks is not None:
        ignored = plan.environment.ignore_task
        return {name: [None if ignored else params] for name, params in plan.evaluation.tasks.items()}
    levels = None if plan.curriculum is None else plan.curriculum.tasks
    if isinstance(levels, Levels) and levels.held_out is not None:
        return levels.held_out.variants()
    return hockey_tasks(plan.evaluation.opponents) if plan.plays_hockey else {}


def read_record(run: str | Path) -> dict[str, Any]:
    """How the training of a run was configured."""
    path = Path(run) / RECORD
    try:
        found = read_object(path, _RECORD)
    except FileNotFoundError:
        raise ConfigError(f"{run} is not the folder of a training: it has no {RECORD}.") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from error
    if found["schema"] != _SCHEMA:
        raise ConfigError(f"{path} has schema {found['schema']}; this version of Cursus reads schema {_SCHEMA}.")
    return found


def plan_of(run: str | Path, settings: Sequence[str] = (), *, trust: bool = False) -> tuple[Plan, dict[str, Any]]:
    """The plan of a recorded training, with some `settings` changed; and what was read, in full.

    Args:
        run: the run folder.
        settings: changes of the configuration such as `"training.steps=1000"` (default none).
        trust: whether it may name code of others, which would be imported (default False: that is an error).
    """
    plan, spec = read_plan(read_record(run)["plan"], settings)
    named = [] if trust else code_of(plan)
    if named:
        raise ConfigError(
            f"{Path(run) / RECORD} wants code to be imported and run: {', '.join(map(repr, named))!s:.200}. If you know where "
            "this run comes from, allow it with --trust (in Python: trust=True)."
        )
    return plan, spec


def code_of(plan: Plan) -> list[str]:
    """The modules of others that a plan names."""
    return _named_code([plan.environment.id, plan.environment.settings])


def _named_code(value: Any) -> list[str]:
    """Every string that is, or may be, a `module:name`, by which Gymnasium and others import a module."""
    if isinstance(value, str):
        return [value] if ":" in value else []
    parts = [*value.keys(), *value.values()] if isinstance(value, Mapping) else value if isinstance(value, list) else []
    return [found for part in parts for found in _named_code(part)]


def _mirror(plan: Plan) -> Mirror:
    if not plan.plays_hockey:
        raise ConfigError("training.mirror is for hockey, whose rink is the same on both sides.")
    fineness = plan.environment.fineness if plan.agent.discrete else None
    return Mirror(keep_mode=plan.environment.keep_mode, fineness=fineness)


def _folder(run: str | Path | None, name: str) -> Path:
    """The run folder: as given, or the first free one under `runs/`."""
    if run is not None:
        return Path(run)
    number = 1
    while (found := Path("runs") / (name if number == 1 else f"{name}-{number}")).exists():
        number += 1
    return found


class _one_thread:  # noqa: N801 – a context
    """Our networks are small: on a CPU one thread is faster than several, and leaves the others to environments."""

    def __init__(self, device: str) -> None:
        self._threads = torch.get_num_threads() if device == "cpu" else None

    def __enter__(self) -> None:
        if self._threads is not None:
            torch.set_num_threads(1)

    def __exit__(self, *exception: object) -> None:
        if self._threads is not None:
            torch.set_num_threads(self._threads)
