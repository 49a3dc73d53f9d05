"""The way to a vector environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium

from cursus.curricula import Curriculum
from cursus.errors import SettingsError
from cursus.settings import check_count
from cursus.teacher import Teacher
from cursus.vector.base import Autoreset
from cursus.vector.crew import context_of
from cursus.vector.env_group import MakeEnv
from cursus.vector.processes import OnWorkerLoss, Processes
from cursus.vector.serial import Serial
from cursus.vector.task_interface import SUCCESS_KEYS, ReadScore, ReadSuccess, SetTask, TaskInterface


def make_vec(
    make_env: str | Callable[[], gymnasium.Env[Any, Any]] | Sequence[MakeEnv],
    num_envs: int | None = None,
    *,
    curriculum: Curriculum | None = None,
    run: str | Path | None = None,
    resume: bool = False,
    seed: int | None = None,
    set_task: SetTask = None,
    success: ReadSuccess = SUCCESS_KEYS,
    score: ReadScore = None,
    num_workers: int | None = None,
    parent_steps: bool = True,
    start_method: str | None = None,
    autoreset: Autoreset = "next_step",
    info_keys: Sequence[str] | None = None,
    record_episodes: bool = False,
    seed_episodes: bool = False,
    copy: bool = True,
    on_worker_loss: OnWorkerLoss = "raise",
    timeout_s: float | None = 60.0,
) -> Serial | Processes:
    """Many copies of an environment as a `gymnasium.vector.VectorEnv`, with a curriculum or without.

    `make_env` is a function that makes one environment, a list of such functions, or the id of a registered one.

    With a `curriculum`, every episode practises the task that its teacher assigned: it travels in
    `reset(options={"task": task})`, or through `set_task(env, task)`. `success` says how the end of an episode is read: a key
    of the final info, several of which the first that is there counts, or a function of the final info (which also has
    `info["episode"]["r"]` and `["l"]`, return and length). `run` is the folder of the record; with `resume` a run goes on from
    its newest checkpoint.

    `num_workers` counts processes, this one included, and is the number of cores unless given; 1 means no other process.
    With `seed_episodes` every episode is seeded by its ticket: the same ticket begins the same way in any environment, and
    again in a resumed run. Infos of steps stay with their environment except the final ones and those in `info_keys`.
    """
    makers = _makers(make_env, num_envs)
    workers = len(os.sched_getaffinity(0)) if num_workers is None else num_workers
    check_count("num_workers", workers)
    if autoreset not in ("next_step", "same_step", "disabled"):
        raise SettingsError(f"autoreset={autoreset!r} must be 'next_step', 'same_step' or 'disabled'.")
    if start_method is not None:
        context_of(start_method)
    if on_worker_loss not in ("raise", "restart"):
        raise SettingsError(f"on_worker_loss={on_worker_loss!r} must be 'raise' or 'restart'.")
    if timeout_s is not None and not timeout_s > 0:
        raise SettingsError(f"timeout_s={timeout_s!r} must be a positive number of seconds, or None.")
    lesson, teacher = None, None
    if curriculum is not None:
        lesson = TaskInterface(curriculum.tasks, set_task=set_task, success=success, score=score)
        teacher = _teacher(curriculum, len(makers), run, resume, seed)
    elif run is not None or resume or seed_episodes:
        raise SettingsError("run, resume and seed_episodes are for a curriculum: give one, or leave them out.")
    shared: dict[str, Any] = {
        "lesson": lesson,
        "teacher": teacher,
        "autoreset": autoreset,
        "seed": seed,
        "info_keys": info_keys,
        "copy": copy,
        "record_episodes": record_episodes,
        "seed_episodes": seed_episodes,
    }
    try:
        if parent_steps and (workers == 1 or len(makers) == 1):
            return Serial(makers, **shared)
        return Processes(
            makers,
            num_workers=workers,
            parent_steps=parent_steps,
            start_method=start_method,
            on_worker_loss=on_worker_loss,
            timeout_s=timeout_s,
            **shared,
        )
    except BaseException:
        if teacher is not None:
            teacher.close()
        raise


def _makers(make_env: Any, num_envs: int | None) -> list[MakeEnv]:
    if isinstance(make_env, Sequence) and not isinstance(make_env, str):
        if not make_env or not all(callable(each) for each in make_env) or num_envs not in (None, len(make_env)):
            raise SettingsError(f"{len(make_env)} makers for num_envs={num_envs}: give one function per environment.")
        return list(make_env)
    check_count("num_envs", 1 if num_envs is None else num_envs)
    if isinstance(make_env, str):
        try:
            spec = gymnasium.spec(make_env)  # found here, so that workers need not have registered it
        except gymnasium.error.Error as error:
            raise SettingsError(f"there is no environment {make_env!r}: {error}") from None
        return [lambda: gymnasium.make(spec)] * (num_envs or 1)
    if not callable(make_env):
        raise SettingsError(f"make_env={make_env!r} is neither a function, a list of functions, nor the id of an environment.")
    return [make_env] * (num_envs or 1)


def _teacher(curriculum: Curriculum, num_envs: int, run: str | Path | None, resume: bool, seed: int | None) -> Teacher:
    if not resume:
        return Teacher(curriculum, run=run, seed=0 if seed is None else seed)
    if run is None:
        raise SettingsError("resume=True needs the run folder: give run=….")
    teacher = Teacher.resume(curriculum, run)
    orphans = [ticket for ticket, env in teacher.in_flight().items() if env >= num_envs]
    teacher.withdraw(orphans)  # of environments that there are no longer
    return teacher
