"""TRL's GRPOTrainer with a curriculum, for real (`tests/trl_job.py`): `make trl` runs it in an environment of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

trl = pytest.importorskip("trl")

from datasets import Dataset  # noqa: E402

import cursus  # noqa: E402
import trl_job  # noqa: E402
from cursus.errors import SettingsError  # noqa: E402
from cursus.runs import read_events  # noqa: E402
from trl_job import GROUP, SIZE, Trainer, make  # noqa: E402
from waiting import wait_until  # noqa: E402

pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]


def test_prompts_are_drawn_by_the_curriculum_which_hears_every_group(tmp_path: Path) -> None:
    trainer = make(tmp_path / "out", steps=12, run=tmp_path / "run")
    trainer.train()
    sampler = trainer.prompt_sampler
    assert sampler is not None
    assert len(trainer.drawn) == 12
    assert all(len(set(rows)) == 8 for rows in trainer.drawn)
    counts = sampler._prompts.teacher.counts
    assert counts.finished == 12 * 8
    assert sampler.staleness.most <= 8  # the trainer reads one batch ahead
    sampler.close()
    events = [each for each in read_events(tmp_path / "run") if each["event"] == "finish"]
    assert [len(each["ticket"]) for each in events] == [8] * 12
    assert all(each["trials"] == [GROUP] * 8 for each in events)
    reported = [event["successes"] for event in events]
    assert reported[0] != reported[-1]
    assert sum(reported[-1]) > 0


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize(
    "generation", [{}, {"steps_per_generation": 2, "num_iterations": 1, "per_device_train_batch_size": 16}]
)
def test_a_resumed_training_draws_the_prompts_of_one_that_was_never_stopped(
    tmp_path: Path, recorded: bool, generation: dict[str, Any]
) -> None:
    straight = make(tmp_path / "straight", **generation)
    straight.train()
    run = tmp_path / "run" if recorded else None
    stopped = make(tmp_path / "stopped", run=run, steps=6, **generation)
    stopped.train()  # has saved at step 4, and went on
    assert stopped.prompt_sampler is not None
    stopped.prompt_sampler.close()
    again = make(tmp_path / "stopped", run=run, resume=recorded, **generation)
    again.train(resume_from_checkpoint=str(tmp_path / "stopped" / "checkpoint-4"))
    done = 4 // generation.get("steps_per_generation", 1)
    assert stopped.drawn[:done] == straight.drawn[:done]
    assert again.drawn == straight.drawn[done:]
    assert len(again.drawn) == len(straight.drawn) - done


@pytest.mark.timeout(900)
def test_a_training_that_is_killed_again_and_again_draws_the_prompts_of_one_that_was_never_stopped(tmp_path: Path) -> None:
    """It begins anew, or at its newest checkpoint: 2, 4, 6. The first kill comes before there is any."""
    straight = make(tmp_path / "straight", save_steps=2)
    straight.train()
    rng, drawn = np.random.default_rng(3), tmp_path / "drawn.txt"

    def lines() -> list[tuple[int, list[int]]]:
        found = drawn.read_text().split("\n")[:-1] if drawn.exists() else []
        return [(step, rows) for step, rows in map(json.loads, found)]

    for more in (1, *rng.integers(2, 5, 3)):
        before = len(lines())
        child = subprocess.Popen([sys.executable, trl_job.__file__, str(tmp_path)], stderr=subprocess.PIPE, text=True)
        wait_until(lambda: child.poll() is not None or len(lines()) >= before + more, "batches of prompts", 240)  # noqa: B023
        if child.poll() is None:
            os.kill(child.pid, signal.SIGKILL)
        _, told = child.communicate()
        assert child.returncode in {0, -signal.SIGKILL}, told
    subprocess.run([sys.executable, trl_job.__file__, str(tmp_path)], check=True, capture_output=True)
    found = lines()
    assert all(rows == straight.drawn[step] for step, rows in found)
    assert {step for step, _ in found} == set(range(8))
    assert len(found) > 8  # some were drawn again


def test_a_checkpoint_that_was_not_saved_to_its_end_is_passed_over(tmp_path: Path) -> None:
    make(tmp_path / "out", steps=8).train()
    (tmp_path / "out" / "checkpoint-8" / "curriculum.bin").unlink()
    again = make(tmp_path / "out", steps=8)
    again.train(resume_from_checkpoint=True)
    assert len(again.drawn) == 4


def test_dataloader_workers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="dataloader_num_workers=1 reads prompts ahead"):
        make(tmp_path / "out", dataloader_num_workers=1)


def test_a_curriculum_of_another_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="41 tasks, train_dataset has 40 rows"):
        Trainer(
            model=make(tmp_path / "out").model,
            processing_class=trl_job.tokenizer(),
            reward_funcs=trl_job.reward,
            args=trl.GRPOConfig(output_dir=str(tmp_path / "other"), report_to=[], use_cpu=True, num_generations=GROUP),
            train_dataset=Dataset.from_dict({"prompt": [str(number) for number in range(SIZE)]}),
            curriculum=cursus.Prompts(SIZE + 1),
        )


def test_a_checkpoint_without_a_curriculum_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out" / "checkpoint-3").mkdir(parents=True)
    with pytest.raises(SettingsError, match="saved without a curriculum, or not to its end"):
        make(tmp_path / "out").train(resume_from_checkpoint=True)
