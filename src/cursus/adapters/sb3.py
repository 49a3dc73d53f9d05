"""Stable-Baselines3: our vector environments for it, its own under a curriculum, and a callback that logs."""

from __future__ import annotations

import time
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array

from cursus.adapters._worker_watch import WorkerWatch
from cursus.adapters.gymnasium import TASK_KEY, TICKET_KEY, wrapper_names
from cursus.curricula import Curriculum
from cursus.curricula.scores import RolloutScorer
from cursus.errors import MissingExtra, SettingsError, StateError
from cursus.metrics import CurriculumStatistics
from cursus.settings import check_count, check_kind, check_positive
from cursus.teacher import Teacher
from cursus.types import Decision, IntArray
from cursus.vector import Processes, Serial
from cursus.vector.task_interface import EPISODE_KEYS, SUCCESS_KEYS, ReadScore, ReadSuccess, TaskInterface
from cursus.verbosity import log

try:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
    from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper, VecNormalize

    from cursus.adapters._sb3_state import load_model, model_state
except ImportError as error:
    raise MissingExtra.of(error, "sb3") from None

_STATS = "env_curriculum_stats"
_WIDTH_OF_TABLE = 33  # SB3's table cuts off longer names, and fails where two are then the same


class _TaughtVecEnv(VecEnv):
    """Environments of SB3's kind whose tasks a teacher assigns."""

    _statistics: CurriculumStatistics | None = None

    @property
    @abstractmethod
    def teacher(self) -> Teacher:
        """Who assigns the tasks."""

    @property
    def statistics(self) -> CurriculumStatistics:
        """Metrics of what is taught here, by label, from the moment when they are first asked for."""
        if self._statistics is None:
            self._statistics = self.teacher.observe(CurriculumStatistics(self.teacher.curriculum))
        return self._statistics


class SB3VecEnv(_TaughtVecEnv):
    """One of our vector environments as an SB3 `VecEnv`. Nothing is ever stale.

    What was decided in a step is in the info of its first environment that ended, under `"decisions"`.

    Args:
        envs: what `cursus.make_vec(…, autoreset="same_step")` gave.

    >>> import cursus
    >>> envs = SB3VecEnv(cursus.make_vec("CartPole-v1", 4, num_workers=0, autoreset="same_step"))
    >>> envs.reset().shape
    (4, 4)
    """

    def __init__(self, envs: Serial | Processes) -> None:
        if not isinstance(envs, Serial | Processes):
            raise SettingsError(
                f"SB3VecEnv is for what cursus.make_vec(…) gives, got {type(envs).__name__}. Around a VecEnv of SB3's own put "
                "CurriculumVecEnvWrapper(venv, curriculum)."
            )
        if envs.metadata["autoreset_mode"].name != "SAME_STEP":
            raise SettingsError('SB3 expects environments that reset in the same step: make_vec(…, autoreset="same_step").')
        if envs.has_teacher:
            _check_learned_from(envs.teacher.curriculum)
        self.envs = envs
        envs.settings = replace(envs.settings, record_episodes=True)
        self._began = time.time()
        self._scored = envs.has_teacher and envs.teacher.rollout_score is not None
        super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

    @property
    def teacher(self) -> Teacher:
        """The teacher of these environments; an error where there is no curriculum."""
        return self.envs.teacher

    def reset(self) -> Any:
        """Begin new episodes everywhere."""
        seeds = self._seeds if any(seed is not None for seed in self._seeds) else None
        observations, infos = self.envs.reset(seed=seeds, options=self._options)
        self._reset_seeds()
        self._reset_options()
        self.reset_infos = [_info_of(infos, env) for env in range(self.num_envs)]
        return observations

    def step_async(self, actions: Any) -> None:
        """Let the environments begin to step."""
        if isinstance(actions, list):  # one for each environment, where ours take arrays nested like the space
            space = self.action_space
            actions = concatenate(space, actions, create_empty_array(space, self.num_envs))  # type: ignore[arg-type]
        if isinstance(self.action_space, spaces.MultiBinary):  # SB3 gives them as floating-point numbers
            actions = np.asarray(actions, self.action_space.dtype)
        if self._scored:
            self._played = self.envs.tickets, self.envs.task_ids
        self.envs.step_async(actions)

    def step_wait(self) -> Any:
        """Observations, rewards, dones and infos, as SB3 expects them."""
        observations, rewards, terminated, truncated, told = self.envs.step_wait()
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for env, info in self.envs.raw_infos:
            infos[env] = dict(info)
        dones = terminated | truncated
        for env in np.flatnonzero(dones).tolist():
            infos[env] |= {
                "terminal_observation": told["final_obs"][env],
                "TimeLimit.truncated": bool(truncated[env] and not terminated[env]),
            }
            if told["_episode"][env]:  # not of one that was lost with its worker
                infos[env]["episode"] = {
                    "r": float(told["episode"]["r"][env]),
                    "l": int(told["episode"]["l"][env]),
                    "t": round(time.time() - self._began, 6),
                }
            final = told["final_info"]
            told_of = [key for key in EPISODE_KEYS if key in final and final[f"_{key}"][env]]
            infos[env] = {key: final[key][env] for key in told_of} | infos[env]
            if "worker_lost" in told and told["_worker_lost"][env]:
                infos[env]["worker_lost"] = True
            elif self._scored:
                infos[env] |= {TICKET_KEY: int(self._played[0][env]), TASK_KEY: int(self._played[1][env])}
        if "decisions" in told:  # they belong to no environment; the first that ended brings them along
            infos[int(np.argmax(dones))]["decisions"] = told["decisions"]
        return observations, rewards.astype(np.float32), dones, infos

    def close(self) -> None:
        """End everything."""
        self.envs.close()

    def _numbers(self, indices: Any) -> list[int]:
        try:
            return [range(self.num_envs)[index] for index in self._get_indices(indices)]
        except IndexError:
            raise SettingsError(f"indices={indices!r} must be those of {self.num_envs} environments.") from None

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Read an attribute of some environments."""
        return list(self.envs.call_some(self._numbers(indices), attr_name))

    def has_attr(self, attr_name: str) -> bool:
        """Whether every environment has this attribute."""
        return all(self.env_method("has_wrapper_attr", attr_name))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of some environments."""
        numbers = self._numbers(indices)
        self.envs.set_attr_some(numbers, attr_name, [value] * len(numbers))

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        """Call a method of some environments."""
        return list(self.envs.call_some(self._numbers(indices), method_name, *method_args, **method_kwargs))

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        """Whether environments are wrapped in this class, or one that is derived from it."""
        name = f"{wrapper_class.__module__}.{wrapper_class.__qualname__}"
        return [name in names for names in self.envs.call_some(self._numbers(indices), wrapper_names)]

    def get_images(self) -> Sequence[Any]:
        """A picture of every environment, if their render mode is `"rgb_array"`."""
        if self.render_mode != "rgb_array":
            warnings.warn(f"the render mode is {self.render_mode}: images need 'rgb_array'.", stacklevel=2)
            return [None] * self.num_envs
        return self.env_method("render")


class CurriculumVecEnvWrapper(_TaughtVecEnv):
    """A curriculum over the `DummyVecEnv` or `SubprocVecEnv` that you already have.

    Its environments must be wrapped in `cursus.adapters.gymnasium.TaskHolder`, which holds the task of the next episode:
    SB3's vector environments reset themselves before anybody can be asked. So every environment holds its next task one
    episode ahead. When something is decided, the tasks that wait are resampled for all environments at once. What remains
    stale are the starts of environments that ended in the very step of a decision, at most `num_envs` per decision:
    `stale_starts` counts them. With `SB3VecEnv` there are none.

    The processes behind a `SubprocVecEnv` are watched: one that dies, or does not answer in time, is a `WorkerError` that
    names it, where SB3 alone would wait for ever.

    To SB3 this is a vector environment, not one of its wrappers: `VecMonitor`, `VecFrameStack` and `VecNormalize` go around
    it, and environments for evaluation need nothing in its place.

    Args:
        venv: the vector environment. `VecNormalize` belongs above, not here.
        curriculum: what chooses the tasks; it belongs to this wrapper's teacher until `close`.
        run: folder of the record (default None: nothing is recorded).
        resume: whether to go on with the run in this folder, if there is one (default False); see `Teacher.resume`.
        seed: what all draws are keyed by, an integer from 0 to 2**64 - 1 (default None: 0, or that of the run).
        success: key of the final info that says whether an episode succeeded, a sequence of keys (the first present is used),
            or a function of the final info (default `"is_success"`, then `"success"`).
        score: key of the final info, or function of it, for curricula with a finer measure (default None: the success).
        timeout_s: seconds within which a worker must answer, or None for no limit (default 60).
    """

    def __init__(
        self,
        venv: VecEnv,
        curriculum: Curriculum,
        *,
        run: str | Path | None = None,
        resume: bool = False,
        seed: int | None = None,
        success: ReadSuccess = SUCCESS_KEYS,
        score: ReadScore = None,
        timeout_s: float | None = 60.0,
    ) -> None:
        _check_venv(venv)
        _check_learned_from(curriculum)
        if timeout_s is not None:
            check_positive("timeout_s", timeout_s)
        if run is not None:
            check_kind("run", run, (str, PathLike), '"runs/first"')
        self.venv = venv
        self._watch = WorkerWatch(venv.unwrapped, timeout_s)
        self._step_async, self._step_wait = self._watch.guarded(venv.step_async), self._watch.guarded(venv.step_wait)
        super().__init__(venv.num_envs, venv.observation_space, venv.action_space)
        if not venv.has_attr("hold"):
            raise SettingsError("wrap each environment in cursus.adapters.gymnasium.TaskHolder, so that it can hold a task.")
        self._teacher = Teacher(curriculum, run=run, resume=resume, seed=seed, ahead=1)
        self.teacher.expect_envs(self.num_envs)
        self.stale_starts = 0
        self._interface = TaskInterface(curriculum.tasks, success=success, score=score, needs=curriculum.needs)
        self._running = np.full(self.num_envs, -1, dtype=np.int64)
        self._ahead = np.full(self.num_envs, -1, dtype=np.int64)
        for env in range(self.num_envs):
            self.env_method("take_number", env, indices=[env])

    @property
    def teacher(self) -> Teacher:
        """Who assigns the tasks."""
        return self._teacher

    def reset(self) -> Any:
        """Begin new episodes everywhere."""
        everyone = np.arange(self.num_envs)
        if self._running[0] < 0:
            self._draw_ahead(everyone)
        elif self.teacher.withdraw(self._running):  # something was decided: what waits was drawn before it
            self.teacher.withdraw(self._ahead)
            self._draw_ahead(everyone)
        with self._watch.guard():
            observations = self.venv.reset()
        self._running[:] = self._ahead
        self._draw_ahead(everyone)
        self.reset_infos = self.venv.reset_infos
        return observations

    def step_async(self, actions: Any) -> None:
        """Let the environments begin to step."""
        self._step_async(actions)

    def step_wait(self) -> Any:
        """What the step brought; ends are reported, and the next tasks handed out."""
        observations, rewards, dones, infos = self._step_wait()
        if 1 in dones.tobytes():  # a tenth of what dones.any() costs
            self._settle(np.flatnonzero(dones), infos)
        return observations, rewards, dones, infos

    def _settle(self, ended: IntArray, infos: Sequence[dict[str, Any]]) -> None:
        results = [self._result(env, infos[env]) for env in ended.tolist()]
        success, returns, lengths, scores = zip(*results, strict=True)
        decisions = self.teacher.report(
            self._running[ended],
            success=success,
            returns=returns,
            lengths=lengths,
            scores=None if self._interface.score is None else scores,
        )
        self._running[ended] = self._ahead[ended]
        self._ahead[ended] = -1
        if decisions:
            self.stale_starts += len(ended)
            self.teacher.withdraw(self._ahead[self._ahead >= 0])
            ended = np.arange(self.num_envs)
            log.debug("[curriculum] the next tasks of all %d environments were resampled", self.num_envs)
        self._draw_ahead(ended)

    def _result(self, env: int, info: dict[str, Any]) -> tuple[bool, float, int, float]:
        if info.get(TICKET_KEY) != self._running[env]:
            raise SettingsError(
                f"environment {env} ended ticket {info.get(TICKET_KEY)}, expected {self._running[env]}: it was reset by "
                "somebody else, or is not wrapped in TaskHolder."
            )
        success, score = self._interface.read_result(info)
        return success, float(info["episode"]["r"]), int(info["episode"]["l"]), score

    def _draw_ahead(self, envs: IntArray) -> None:
        given = self.teacher.assign(envs)
        self._ahead[envs] = given.tickets
        stages: Sequence[str | None] = self.teacher.curriculum.stages_of(given.tags) or [None] * len(given)
        rows = zip(given.envs.tolist(), given.tickets.tolist(), given.tasks.tolist(), stages, strict=True)
        tasks = {env: (ticket, self.teacher.tasks[task], stage) for env, ticket, task, stage in rows}
        self.env_method("hold", tasks, indices=envs.tolist())

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        """Call a method of some environments."""
        with self._watch.guard():
            return list(self.venv.env_method(method_name, *method_args, indices=indices, **method_kwargs))

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Read an attribute of some environments."""
        with self._watch.guard():
            return list(self.venv.get_attr(attr_name, indices))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of some environments."""
        with self._watch.guard():
            self.venv.set_attr(attr_name, value, indices)

    def has_attr(self, attr_name: str) -> bool:
        """Whether every environment has this attribute."""
        with self._watch.guard():
            return bool(self.venv.has_attr(attr_name))

    def env_is_wrapped(self, wrapper_class: type, indices: Any = None) -> list[bool]:
        """Whether environments are wrapped in this class."""
        with self._watch.guard():
            return list(self.venv.env_is_wrapped(wrapper_class, indices=indices))

    def get_images(self) -> Sequence[Any]:
        """A picture of every environment, if their render mode is `"rgb_array"`."""
        with self._watch.guard():
            return list(self.venv.get_images())

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Seed every environment at the next reset."""
        return list(self.venv.seed(seed))

    def set_options(self, options: list[dict[str, Any]] | dict[str, Any] | None = None) -> None:
        """Give every environment options for the next reset."""
        self.venv.set_options(options)

    def close(self) -> None:
        """End everything, also after a worker was lost."""
        self.teacher.close()
        self._watch.close(self.venv)


def _check_venv(venv: Any) -> None:
    """Refuse what is no SB3 environment, and one whose rewards were changed before we see them."""
    if not isinstance(venv, VecEnv):
        raise SettingsError(
            f"CurriculumVecEnvWrapper goes around a VecEnv of SB3, got {type(venv).__name__}. Environments of ours get the "
            'curriculum when they are made: SB3VecEnv(cursus.make_vec(…, curriculum=…, autoreset="same_step")).'
        )
    inner: Any = venv
    while isinstance(inner, VecEnvWrapper):
        if isinstance(inner, VecNormalize):
            raise SettingsError(
                "VecNormalize below the curriculum would hide the true returns from it. The right order is "
                "VecNormalize(CurriculumVecEnvWrapper(DummyVecEnv(…), curriculum))."
            )
        inner = inner.venv


def _check_learned_from(curriculum: Any) -> None:
    """Refuse a curriculum with episodes that are played to be scored alone: algorithms of SB3 learn from every step."""
    if isinstance(curriculum, Curriculum) and curriculum.withholds:
        raise SettingsError(
            f"{type(curriculum).__name__} has episodes that must not be learned from, and the algorithms of Stable-Baselines3 "
            "learn from every step. Let it learn from all (robust=False, evaluate=False), or train with cursus.agents.PPO."
        )


class SB3Scorer:
    """Scores episodes from the rollouts of an on-policy algorithm, and hands the scores to the teacher that asks for them.

    Args:
        teacher: who assigns the tasks; its `rollout_score` says which score.
        model: an algorithm with rollouts; others are refused.
    """

    def __init__(self, teacher: Teacher, model: BaseAlgorithm) -> None:
        wanted = teacher.rollout_score
        if not isinstance(model, OnPolicyAlgorithm) or wanted is None:
            raise SettingsError(
                f"{type(teacher.curriculum).__name__} reads {wanted}, a score of rollouts; {type(model).__name__} has none. "
                'Train with an on-policy algorithm such as PPO, or let it read results: score="learnability".'
            )
        self._teacher, self._model = teacher, model
        self.scorer = RolloutScorer(wanted, model.n_envs)
        """What is known of the episodes under way."""

    @classmethod
    def of(cls, teacher: Teacher, model: BaseAlgorithm) -> SB3Scorer | None:
        """One for a `model`, if the `teacher` asks for scores of rollouts."""
        return None if teacher.rollout_score is None else cls(teacher, model)

    def step(self, rewards: Any, dones: Any, infos: Sequence[dict[str, Any]]) -> None:
        """One step of all environments: `rewards`, `dones` and `infos` as SB3 has them."""
        tickets, tasks = (np.array([info.get(key, -1) for info in infos], dtype=np.int64) for key in (TICKET_KEY, TASK_KEY))
        self.scorer.step(np.asarray(rewards, dtype=np.float64), np.asarray(dones, dtype=bool), tickets, tasks)

    def finish(self) -> list[Decision]:
        """The rollout is full; what was decided because of its scores."""
        buffer = self._model.rollout_buffer
        return self._teacher.score(*self.scorer.finish(buffer.advantages, buffer.values))


class CurriculumCallback(BaseCallback):
    """Logs `curriculum/…` at the end of every rollout, and saves model and curriculum together, so that a run can be resumed.

    **Logged** are, with stages, the present one, the success of each and the mix; otherwise by label success, share of what was
    drawn in this rollout, progress where the curriculum measures it, and how evenly labels were drawn (`entropy`, 1 is evenly).
    Always: episodes, tickets in flight, stale starts.

    **Scored** are episodes from the rollouts of an on-policy algorithm, where the curriculum reads such scores (`PLR`).

    **Saved** is one cut of the model (weights, optimisers, counters, random streams), the statistics of `VecNormalize` and the
    teacher, between two rollouts. When `learn` begins in environments that were made with `resume=True`, all of it is loaded:
    the same script, started again, goes on where it was and stops at the same number of steps.

    Args:
        envs: the environments that are trained on.
        save_every: steps between two checkpoints, at least 1; there is one at the beginning and one at the end, too (default
            20,000). None: the model is not saved here. Without a run folder nothing is.
        save_replay_buffer: whether the replay buffer of an off-policy algorithm is saved too, which may be large (default
            False).
        max_labels: number of labels that get curves of their own, those with the most episodes, at least 1 (default 20).
        verbose: SB3's level of output, from 0 to 2 (default 0).
    """

    def __init__(
        self,
        envs: SB3VecEnv | CurriculumVecEnvWrapper,
        *,
        save_every: int | None = 20_000,
        save_replay_buffer: bool = False,
        max_labels: int = 20,
        verbose: int = 0,
    ) -> None:
        super().__init__(verbose)
        check_kind("envs", envs, _TaughtVecEnv, "SB3VecEnv(cursus.make_vec(…)) or CurriculumVecEnvWrapper(venv, curriculum)")
        if save_every is not None:
            check_count("save_every", save_every)
        check_count("max_labels", max_labels)
        self._envs, self._teacher, self._statistics = envs, envs.teacher, envs.statistics
        self._save_every = None if envs.teacher.run is None else save_every
        self._save_replay_buffer = save_replay_buffer
        self._max_labels = max_labels
        self._saved: int | None = None

    def _init_callback(self) -> None:
        """Go on from where a resumed run was saved."""
        inner: Any = self.model.env
        while isinstance(inner, VecEnvWrapper):
            inner = inner.venv
        if inner is not self._envs:
            raise SettingsError("the model is trained in other environments than those that this callback was given.")
        if self._teacher.run is None:
            log.info("[curriculum] the model is not saved: its environments have no run folder (run=…)")
        teacher, state = self._teacher, self._teacher.caller_state
        if state is not None:
            if not isinstance(state, dict) or set(state) != {"sb3"}:
                raise StateError(f"the run {teacher.run} was saved by something else than this callback: it cannot be resumed.")
            load_model(self.model, state["sb3"])
            teacher.caller_state = None  # a second call of `learn` goes on from the first
            if isinstance(self.model.env, VecNormalize):  # what was seen at the reset was normalised as in the beginning
                self.model._last_obs = self.model.env.normalize_obs(self.model.env.get_original_obs())
            log.info("[curriculum] the model goes on from step %s", f"{self.model.num_timesteps:,}")
            if self.model.num_timesteps >= self.model._total_timesteps:
                log.warning(
                    "[curriculum] nothing is trained: all of %s steps were done before. Give more steps, or another run=…",
                    f"{self.model._total_timesteps:,}",
                )
        self._saved = None if state is None else self.model.num_timesteps
        self._scorer = SB3Scorer.of(teacher, self.model)

    def _on_step(self) -> bool:
        if self._scorer is not None:
            self._scorer.step(*(self.locals[name] for name in ("rewards", "dones", "infos")))
        return True

    def _on_rollout_start(self) -> None:
        """Everything that was collected has been learned from, so a cut here is whole.

        The first is made before anything is learned: a run that is killed early goes back to it, model and curriculum together.
        """
        due = self._saved is None or (self._save_every and self.model.num_timesteps - self._saved >= self._save_every)
        if self._save_every is not None and due:
            self._save()

    def _on_training_end(self) -> None:
        if self._save_every is not None:
            self._save()

    def _save(self) -> None:
        self._saved = self.model.num_timesteps
        self._teacher.checkpoint({"sb3": model_state(self.model, replay_buffer=self._save_replay_buffer)})

    def _on_rollout_end(self) -> None:
        if self._scorer is not None:
            self._scorer.finish()
        for name, value in curriculum_metrics(self._teacher, self._statistics, self._max_labels).items():
            unseen = ("stdout", "log") if len(name) > _WIDTH_OF_TABLE else None
            self.logger.record(f"curriculum/{name}", value, exclude=unseen)
        if isinstance(self._envs, CurriculumVecEnvWrapper):
            self.logger.record("curriculum/stale_starts", self._envs.stale_starts)


def curriculum_metrics(teacher: Teacher, statistics: CurriculumStatistics, max_labels: int) -> dict[str, Any]:
    """What is worth a curve since the last call.

    Args:
        teacher: who assigns the tasks.
        statistics: what observes it.
        max_labels: number of labels that get curves of their own.
    """
    metrics: dict[str, Any] = {"episodes": teacher.counts.finished, "in_flight": teacher.counts.in_flight}
    reported = statistics.report()
    stages = teacher.curriculum.status().get("stages", [])
    metrics.update(_of_stages(stages) if stages else _of_labels(reported, max_labels))
    if not stages:
        metrics["entropy"] = reported["overview/sampling_entropy_normalized"]
    return metrics


def _of_stages(stages: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The success of each stage, the present one and its mix."""
    metrics: dict[str, Any] = {}
    for index, row in enumerate(stages):
        if row["success"] is not None:
            metrics[f"success/{row['stage']}"] = row["success"]
        if row["status"] in ("current", "graduated"):
            metrics["stage"] = index
            metrics["mix"] = row["mix"]
    return metrics


def _of_labels(reported: dict[str, float], max_labels: int) -> dict[str, Any]:
    """Success, share and progress of the labels with the most episodes."""

    def by_label(name: str) -> dict[str, float]:
        stem = f"{_STATS}/{name}/"
        return {key.removeprefix(stem): value for key, value in reported.items() if key.startswith(stem)}

    episodes, drawn = by_label("per_label_completion_counts"), by_label("per_label_samples_this_epoch")
    shares = {label: count / (sum(drawn.values()) or 1.0) for label, count in drawn.items()}
    kept = {label for label in sorted(episodes, key=lambda label: -episodes[label])[:max_labels] if episodes[label]}
    curves = {"success": by_label("per_label_success"), "share": shares, "progress": by_label("per_label_lp_scores")}
    return {f"{name}/{label}": value for name, curve in curves.items() for label, value in curve.items() if label in kept}


def _info_of(infos: dict[str, Any], env: int) -> dict[str, Any]:
    """The info of one environment out of those of all."""
    return {
        key: _info_of(value, env) if isinstance(value, dict) else value[env]
        for key, value in infos.items()
        if not key.startswith("_") and f"_{key}" in infos and infos[f"_{key}"][env]
    }
