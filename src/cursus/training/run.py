"""A whole training from a configuration: environments, agent, opponents, evaluations, and a run folder."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from cursus._files import Shape, make_folder, read_object
from cursus.agents import PPO, Agent, OffPolicyAgent
from cursus.config import read
from cursus.curricula import Curriculum
from cursus.errors import ConfigError, CursusError, SettingsError
from cursus.metrics import Writer
from cursus.runs.checkpoint import write_atomically
from cursus.settings import check_count, check_kind, describe
from cursus.tasks import Discrete, Task
from cursus.teacher import Teacher
from cursus.training.build import (
    build_curriculum,
    evaluation_env,
    evaluation_env_maker,
    evaluation_tasks,
    external_names,
    make_env,
    set_task_of,
    success_of,
)
from cursus.training.callbacks import Callback, Training, reading_state
from cursus.training.device import DeviceLearner, batched_kind, make_batched
from cursus.training.evaluate import GameEnv, PlannedGame
from cursus.training.evaluations import LAST, Evaluation, Evaluations
from cursus.training.learner import AgentLearner
from cursus.training.loop import Loop, LoopSettings
from cursus.training.opponents import Opponents, PlayerViews, find_weights
from cursus.training.plan import Plan, read_plan
from cursus.vector import make_vec
from cursus.vector.task_interface import TaskInterface

if TYPE_CHECKING:
    from cursus.training.sb3 import SB3Learner

RECORD = "train.json"
_SCHEMA = 2
_RECORD: dict[Any, Shape] = {"schema": int, "plan": dict, "num_envs": int, "device": str}
_MOST_ENVS, _MOST_BATCHED = 1 << 16, 1 << 20
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
    best: Evaluation | None = None
    """The best weights, in other games than those that they were chosen for."""

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
    curriculum: Curriculum | None = None,
    weights: str | Path | None = None,
    num_workers: int | None = None,
    trust: bool = False,
    outputs: Sequence[str] = (),
    callbacks: Sequence[Callback] = (),
    writers: Sequence[Writer] = (),
    on_begin: Callable[[Plan, Path], None] = lambda plan, run: None,
) -> TrainResult:
    """Train as a configuration says.

    Args:
        config: a TOML or JSON file, or a mapping of what would be in one (default None, with `resume`).
        num_envs: number of environments, at least 1 (default 8). More of them collect faster and see other episodes; what is
            learned from how many steps stays about the same.
        device: of PyTorch, such as `"cpu"` or `"cuda"` (default `"cpu"`).
        run: the run folder (default a new one under `runs/`).
        resume: a run folder to go on in, from its newest checkpoint and, with as many environments, exactly as if it had never
            been stopped; a run that is over goes on with `settings=["training.steps=…"]` (default None).
        settings: changes of the configuration such as `"training.steps=1000"` (default none).
        algo: replaces the table `agent`: `"DDDQN"`, `"SAC"`, `"PPO"`, or an algorithm of Stable-Baselines3 such as
            `"sb3:PPO"` (default None: the table decides).
        curriculum: one that was made in Python, such as one of your own, in place of the table `curriculum`; give it again to
            resume (default None: the table decides).
        weights: a file of weights, or a run whose best ones are taken, to begin from (default None: fresh ones).
        num_workers: worker processes, as in `cursus.make_vec` (default None).
        trust: whether a resumed run may have code imported that it names, such as the module of its environment: only for
            runs whose origin is known (default False: that is an error). What `config` names needs no trust.
        outputs: further forms of the metrics in the run folder, `"tensorboard"` or `"wandb"`; `training.outputs` of the
            configuration (default none).
        callbacks: told of steps, decisions and rows of metrics; see `Callback` (default none).
        writers: further writers of metrics; they stay open (default none).
        on_begin: called with plan and run folder when everything is made.
    """
    for callback in callbacks:
        check_kind("callbacks", callback, Callback, "instances of subclasses of cursus.training.Callback")
    for writer in writers:
        check_kind("writers", writer, Writer, "CsvWriter('metrics.csv')")
    if outputs:
        settings = [*settings, f"training.outputs={json.dumps(list(outputs))}"]
    if resume is None:
        job = _Job.new(config, num_envs, device, run, settings, algo, curriculum)
    else:
        if run is not None or weights is not None or config is not None or algo is not None:
            raise SettingsError(f"{resume} goes on as it began, in its folder: leave out config, algo, run and weights.")
        job = _Job.resumed(resume, num_envs, device, settings, curriculum, trust=trust)
    with ExitStack() as stack:
        stack.enter_context(_one_thread(job.device))
        made = job.prepare(num_workers, weights, stack)
        on_begin(job.plan, job.run)
        return made.go(callbacks, writers)


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
        cls,
        config: Any,
        num_envs: int | None,
        device: str | None,
        run: Any,
        settings: Sequence[str],
        algo: str | None,
        curriculum: Curriculum | None,
    ) -> _Job:
        if config is None:
            raise SettingsError("give a configuration, or resume=… the folder of a run.")
        given = config if isinstance(config, Mapping) else read(config)
        plan, spec = _with_curriculum(*read_plan(_without_curriculum(given, curriculum), settings, algo=algo), curriculum)
        name = "train" if isinstance(config, Mapping) else Path(config).stem
        begun = given if "plan" in given else {}  # the record of another training, which begins again as it did
        num_envs = begun.get("num_envs", 8) if num_envs is None else num_envs
        return cls(plan, spec, num_envs, device or str(begun.get("device", "cpu")), _folder(run, name), is_resumed=False)

    @classmethod
    def resumed(
        cls,
        run: str | Path,
        num_envs: int | None,
        device: str | None,
        settings: Sequence[str],
        curriculum: Curriculum | None,
        *,
        trust: bool,
    ) -> _Job:
        record = read_record(run)
        plan, spec = plan_of(run, settings, curriculum, trust=trust)
        if plan.seed != record["plan"].get("seed", Plan.seed):
            raise SettingsError(f"{run} goes on with the seed that it began with.")
        return cls(plan, spec, num_envs or record["num_envs"], device or record["device"], Path(run), is_resumed=True)

    def __post_init__(self) -> None:
        check_count("num_envs", self.num_envs)
        most = _MOST_BATCHED if self.is_batched else _MOST_ENVS
        if self.num_envs > most:
            raise SettingsError(f"num_envs={self.num_envs:,} is too many: at most {most:,}.")
        try:
            if not _DEVICE.fullmatch(self.device):
                raise RuntimeError("it is not known")
            torch.empty(0, device=self.device)
        except (RuntimeError, AssertionError) as error:
            why = str(error).splitlines()[0].rstrip(".")
            raise SettingsError(f"device={self.device!r} cannot be used here: {why}. Use cpu, or cuda with a GPU.") from None

    def prepare(self, num_workers: int | None, weights: str | Path | None, stack: ExitStack) -> _Prepared:
        """Everything that is needed, made before anything is written; so errors come first."""
        plan = self.plan
        curriculum = build_curriculum(plan)
        if plan.training.steps is None and plan.training.minutes is None and curriculum.completed is None:
            raise ConfigError(
                f"training.steps is missing: this {type(curriculum).__name__} is never completed, so nothing else says when "
                "it is over."
            )
        self._try_evaluation()
        if self.is_batched:
            return self._prepare_batched(curriculum, weights, stack)
        external = external_names(curriculum) if plan.environment.recipe.has_opponents else []
        make = partial(make_env, plan.environment, discrete=plan.agent.discrete, external=external)
        first = make()
        agent = self._make_agent(first, weights, players=2 if external else 1)
        opponents = self._opponents(agent, external, first)
        first.close()
        if plan.training.mirror:
            self._add_mirror(agent)
        envs = make_vec(
            make,
            self.num_envs,
            curriculum=curriculum,
            run=self.run,
            resume=self.is_resumed,
            seed=plan.seed,
            score=plan.environment.recipe.score,
            set_task=set_task_of(plan),
            num_workers=num_workers,
            parent_steps=num_workers == 0 or not isinstance(agent, OffPolicyAgent),  # which learns while others step
            autoreset="same_step",
            seed_episodes=True,
            success=success_of(plan.environment),
        )
        stack.callback(envs.close)
        if not self.is_resumed:
            self.write_record()
        if opponents is not None:
            opponents.keep_chosen()
        return _Prepared(self, envs.teacher, self._learner(envs, agent, opponents), _PACE, opponents, stack)

    @property
    def is_batched(self) -> bool:
        """Whether the environments are tensors on a device."""
        return batched_kind(self.plan.environment) is not None

    def _prepare_batched(self, curriculum: Curriculum, weights: str | Path | None, stack: ExitStack) -> _Prepared:
        plan = self.plan
        if plan.training.mirror or plan.phases:
            raise ConfigError("phases and training.mirror are for games, not for batched environments.")
        stack.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
        torch.set_float32_matmul_precision("high")  # as exact as such large batches can tell, and much faster
        envs = make_batched(plan.environment, curriculum.tasks, self.num_envs, device=self.device, seed=plan.seed)
        stack.callback(envs.close)
        single = make_env(plan.environment, discrete=plan.agent.discrete)
        agent = self._make_agent(single, weights, players=1)
        single.close()
        if not isinstance(agent, PPO):
            raise ConfigError(f"agent.type: {plan.environment.id} is a batched environment, in which PPO learns alone.")
        teacher = Teacher(curriculum, run=self.run, resume=self.is_resumed, seed=plan.seed)
        stack.callback(teacher.close)
        if not self.is_resumed:
            self.write_record()
        learner = DeviceLearner(envs, agent, teacher)
        pace = _Pace(16 * learner.rollout_steps, 512 * learner.rollout_steps)
        return _Prepared(self, teacher, learner, pace, None, stack)

    def _make_agent(self, envs: Any, weights: str | Path | None, *, players: int) -> Agent | SB3Learner:
        plan = self.plan
        agent = plan.agent.make(
            envs, players=players, num_envs=self.num_envs, device=self.device, seed=plan.seed, training=plan.training
        )
        if weights is not None:
            agent.load_weights(find_weights(weights))
        return agent

    def _opponents(self, agent: Agent | SB3Learner, external: Sequence[str], env: Any) -> Opponents | None:
        if not external or not isinstance(agent, Agent):
            return None
        views = PlayerViews(env.observation_space, env.action_space, players=2)
        return Opponents(
            agent,
            external,
            self.num_envs,
            blank=views.blank(self.num_envs),
            run=self.run,
            seed=self.plan.seed,
            deterministic=self.plan.training.deterministic_opponents,
        )

    def _add_mirror(self, agent: Any) -> None:
        if not isinstance(agent, OffPolicyAgent):
            raise ConfigError("training.mirror is for DDDQN and SAC. Give --set training.mirror=false with others.")
        environment = self.plan.environment
        agent.augment = environment.recipe.mirror(environment.settings, discrete=self.plan.agent.discrete)
        if agent.augment is None:
            raise ConfigError(f"training.mirror: {environment.id} is not known to be the same when it is mirrored.")

    def _learner(self, envs: Any, agent: Agent | SB3Learner, opponents: Opponents | None) -> AgentLearner | SB3Learner:
        training = self.plan.training
        if not isinstance(agent, Agent):
            agent.take(envs)
            return agent
        return AgentLearner(
            envs,
            agent,
            updates_per_env_step=training.updates_per_env_step,
            learning_starts=training.learning_starts,
            seed=self.plan.seed,
            opponents=opponents,
        )

    def write_record(self) -> None:
        """How this training is configured, for whoever resumes it or looks at it."""
        record = {"schema": _SCHEMA, "plan": self.spec, "num_envs": self.num_envs, "device": self.device}
        write_atomically(self.run / RECORD, json.dumps(record, indent=2).encode())

    def _try_evaluation(self) -> None:
        """Begin every game that will be evaluated, so that a wrong one is found now."""
        env = evaluation_env(self.plan)
        interface = TaskInterface(Discrete(1), set_task=set_task_of(self.plan))
        try:
            for name, variants in evaluation_tasks(self.plan).items():
                for params in variants:
                    try:
                        GameEnv(env, interface).begin(PlannedGame(name, 0, Task(0, name, params), None))
                    except (CursusError, KeyError, TypeError, ValueError) as error:
                        given = self.plan.evaluation.tasks is not None
                        where = f"evaluation.tasks.{name}" if given else f"the task {name!r} cannot be begun"
                        raise ConfigError(f"{where}: {error.__cause__ or error}") from error
        finally:
            env.close()


@dataclass(frozen=True)
class _Pace:
    """Steps between two rows of metrics and two checkpoints, where a plan does not say so."""

    report: int
    checkpoint: int


_PACE = _Pace(2_000, 50_000)


@dataclass
class _Prepared:
    """Everything is made; it can begin."""

    job: _Job
    teacher: Teacher
    learner: AgentLearner | DeviceLearner | SB3Learner
    pace: _Pace
    opponents: Opponents | None
    stack: ExitStack

    def go(self, callbacks: Sequence[Callback], writers: Sequence[Writer]) -> TrainResult:
        plan, run, training = self.job.plan, self.job.run, self.job.plan.training
        evaluations = self._evaluations()
        begun = _Begun(self.job.write_record)
        own: list[Callback] = [*([] if self.opponents is None else [self.opponents]), evaluations, begun]
        environment = plan.environment
        settings = LoopSettings(
            steps=training.steps,
            minutes=training.minutes,
            report_every=training.report_every or self.pace.report,
            checkpoint_every=training.checkpoint_every or self.pace.checkpoint,
            seed=plan.seed,
            clear_buffer_before=frozenset(phase.name for phase in plan.phases[1:] if phase.clear_buffer),
            label_statistics=training.label_statistics,
            success_told=environment.success is not None or environment.success_return is not None or self.job.is_batched,
            outputs=training.outputs,
        )
        loop = Loop(self.teacher, self.learner, settings, run=run, callbacks=[*own, *callbacks], writers=writers)
        try:
            result = loop.run()
        except (KeyboardInterrupt, SystemExit):
            if begun:
                self._save_last()
            raise
        self._save_last()
        evaluations.finish(result.steps)
        counted = (result.steps, result.episodes, result.updates, result.mean_return, result.completed)
        return TrainResult(run, *counted, evaluations.done, evaluations.best_again())

    def _save_last(self) -> None:
        folder = make_folder(self.job.run / "weights")
        self.learner.save_weights(folder / LAST)

    def _evaluations(self) -> Evaluations:
        plan = self.job.plan
        with reading_state():
            state = self.teacher.caller_state
            resumed_at = -1 if state is None else int(state["steps"])
        found = Evaluations(
            self.learner,
            self.job.run,
            evaluation_env_maker(plan),
            evaluation_tasks(plan),
            every=self.pace.checkpoint if plan.evaluation.every is None else plan.evaluation.every,
            games=plan.evaluation.games,
            seed=plan.seed,
            background=plan.evaluation.background,
            resumed_at=resumed_at,
            success=success_of(plan.environment),
            score=plan.environment.recipe.score,
            set_task=set_task_of(plan),
        )
        self.stack.callback(found.close)
        return found


class _Begun(Callback):
    """Knows whether a step was done: before it, agent and settings are not yet known to be those of the run."""

    def __init__(self, at_first: Callable[[], None]) -> None:
        self._begun = False
        self._at_first = at_first

    def __bool__(self) -> bool:
        return self._begun

    def on_step(self, now: Training, save: Callable[[], Path | None]) -> dict[str, float]:
        """A step was done."""
        if not self._begun:
            self._begun = True
            self._at_first()
        return {}


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


def plan_of(
    run: str | Path, settings: Sequence[str] = (), curriculum: Curriculum | None = None, *, trust: bool = False
) -> tuple[Plan, dict[str, Any]]:
    """The plan of a recorded training, with some `settings` changed; and what was read, in full.

    Args:
        run: the run folder.
        settings: changes of the configuration such as `"training.steps=1000"` (default none).
        curriculum: in place of the recorded one (default None).
        trust: whether it may name code of others, which would be imported (default False: that is an error).
    """
    recorded = read_record(run)["plan"]
    named = [] if trust else named_code([recorded.get("environment"), *settings])
    if named:
        raise ConfigError(
            f"{Path(run) / RECORD} wants code to be imported and run: {', '.join(map(repr, named))!s:.200}. If you know where "
            "this run comes from, allow it with --trust (in Python: trust=True)."
        )
    return _with_curriculum(*read_plan(_without_curriculum(recorded, curriculum), settings), curriculum)


def _without_curriculum(spec: Mapping[str, Any], curriculum: Curriculum | None) -> Mapping[str, Any]:
    """What a configuration says of everything else, where the curriculum is given."""
    return spec if curriculum is None else {key: value for key, value in spec.items() if key != "curriculum"}


def _with_curriculum(plan: Plan, spec: dict[str, Any], curriculum: Curriculum | None) -> tuple[Plan, dict[str, Any]]:
    if curriculum is None:
        return plan, spec
    check_kind("curriculum", curriculum, Curriculum, "cursus.Uniform(10)")
    return replace(plan, curriculum=curriculum), {**spec, "curriculum": describe(curriculum)}


def code_of(plan: Plan) -> list[str]:
    """The modules of others that a plan names."""
    return named_code([plan.environment.id, plan.environment.settings])


def named_code(value: Any) -> list[str]:
    """Every string that is, or may be, a `module:name`, by which Gymnasium and others import a module."""
    if isinstance(value, str):
        return [value] if ":" in value else []
    parts = [*value.keys(), *value.values()] if isinstance(value, Mapping) else value if isinstance(value, list) else []
    return [found for part in parts for found in named_code(part)]


def _folder(run: str | Path | None, name: str) -> Path:
    """The run folder: as given, or the first free one under `runs/`."""
    return free_folder(name) if run is None else Path(run)


def free_folder(name: str) -> Path:
    """The first folder under `runs/` with this name, or with a number behind it, that does not exist."""
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
