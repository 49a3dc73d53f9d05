"""TRL's GRPOTrainer with a curriculum, for real: a one-layer GPT-2 with random weights, a tiny tokenizer, a toy reward.

Run with `make trl`, in a virtual environment of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

trl = pytest.importorskip("trl")

import torch  # noqa: E402
from datasets import Dataset  # noqa: E402
from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: E402
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast  # noqa: E402

import cursus  # noqa: E402
from cursus.adapters.trl import Taught  # noqa: E402
from cursus.errors import SettingsError  # noqa: E402
from cursus.runs import read_events  # noqa: E402

pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("ignore")]

SIZE, GROUP = 40, 4
WORDS = ["<pad>", "<eos>", "<unk>", *map(str, range(SIZE))]


class Trainer(Taught, trl.GRPOTrainer):
    """Keeps the rows that were generated for."""

    drawn: list[list[int]]

    def _calculate_rewards(self, inputs: Any, *args: Any) -> Any:
        self.drawn.append([int(each["prompt"]) for each in inputs][::GROUP])
        return super()._calculate_rewards(inputs, *args)


def reward(prompts: list[str], trainer_state: Any, **_: Any) -> list[float]:
    """Lower numbers are learned as steps go by, the upper half is a coin flip; it depends on the step alone, not on answers."""
    found = []
    for row, prompt in enumerate(prompts):
        number, step = int(prompt), trainer_state.global_step
        luck = ((number * 31 + step * 17 + row * 7) * 2654435761 % 2**32) / 2**32
        found.append(float(luck < (0.5 if number >= SIZE // 2 else step / 12)))
    return found


def tokenizer() -> Any:
    plain = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token=WORDS[2]))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=plain, padding_side="left", **special)


def make(folder: Path, *, steps: int = 8, run: Path | None = None, resume: bool = False, **settings: Any) -> Trainer:
    torch.manual_seed(0)
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=len(WORDS), n_positions=32, n_embd=16, n_layer=1, n_head=2, bos_token_id=1, eos_token_id=1)
    )
    arguments: dict[str, Any] = {
        "output_dir": str(folder),
        "max_steps": steps,
        "per_device_train_batch_size": 8 * GROUP,
        "num_generations": GROUP,
        "max_completion_length": 4,
        "save_steps": 4,
        "logging_steps": 1,
        "report_to": [],
        "use_cpu": True,
        "seed": 5,
        "disable_tqdm": True,
        **settings,
    }
    trainer = Trainer(
        model=model,
        processing_class=tokenizer(),
        reward_funcs=reward,
        args=trl.GRPOConfig(**arguments),
        train_dataset=Dataset.from_dict({"prompt": [str(number) for number in range(SIZE)]}),
        curriculum=cursus.Prompts(SIZE, labels={"sums": SIZE // 2, "flips": SIZE // 2}),
        run=run,
        resume=resume,
    )
    trainer.drawn = []
    return trainer


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


def test_dataloader_workers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="dataloader_num_workers=1 reads prompts ahead"):
        make(tmp_path / "out", dataloader_num_workers=1)


def test_a_curriculum_of_another_size_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="41 tasks, train_dataset has 40 rows"):
        Trainer(
            model=make(tmp_path / "out").model,
            processing_class=tokenizer(),
            reward_funcs=reward,
            args=trl.GRPOConfig(output_dir=str(tmp_path / "other"), report_to=[], use_cpu=True, num_generations=GROUP),
            train_dataset=Dataset.from_dict({"prompt": [str(number) for number in range(SIZE)]}),
            curriculum=cursus.Prompts(SIZE + 1),
        )


def test_a_checkpoint_without_a_curriculum_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out" / "checkpoint-3").mkdir(parents=True)
    with pytest.raises(SettingsError, match="saved without a curriculum"):
        make(tmp_path / "out").train(resume_from_checkpoint=True)
