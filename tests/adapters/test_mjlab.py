"""The curriculum term in a real environment of mjlab, on the CPU: `make mjlab`."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import cursus
from cursus.adapters.isaaclab import IsaacCurriculumTerm
from cursus.replay import replay

pytestmark = [
    pytest.mark.skipif(find_spec("mjlab") is None, reason="mjlab is not installed: make mjlab"),
    pytest.mark.filterwarnings("ignore"),  # those of its libraries
]


def test_a_cart_and_its_pole_are_taught(tmp_path: Path) -> None:
    from mjlab.envs import ManagerBasedRlEnv
    from mjlab.managers import CurriculumTermCfg
    from mjlab.tasks.registry import load_env_cfg

    seen: list[tuple[list[int], list[int]]] = []

    def set_tasks(env: Any, env_ids: Tensor, tasks: Tensor) -> None:
        seen.append((env_ids.tolist(), tasks.tolist()))

    term = IsaacCurriculumTerm(cursus.LearningProgress(5), run=tmp_path / "run", set_tasks=set_tasks, seed=1)
    configured = load_env_cfg("Mjlab-Cartpole-Balance")
    configured.scene.num_envs = 4
    configured.episode_length_s = 0.5
    configured.curriculum = {"tasks": CurriculumTermCfg(func=term)}
    env = ManagerBasedRlEnv(configured, device="cpu")
    env.reset()
    assert seen == [([0, 1, 2, 3], seen[0][1])]
    assert term.teacher.counts.finished == 0
    ended = 0
    for _ in range(120):
        *_, terminated, truncated, extras = env.step(torch.zeros((4, env.action_manager.total_action_dim)))
        ended += int((terminated | truncated).sum())
    counts = term.teacher.counts
    assert counts.finished == ended > 8
    assert counts.in_flight == 4
    assert [key for key in extras["log"] if key.startswith("Curriculum/tasks/")]
    env.close()
    term.close()
    assert replay(tmp_path / "run").same
