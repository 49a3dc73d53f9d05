"""A training of TRL for its tests: a one-layer GPT-2 with random weights, a tiny tokenizer, a toy reward.

Started as a script, it trains to its end, from wherever it stands; each batch of prompts is a line of a file.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import trl
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import cursus
from cursus.adapters.trl import Taught

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


if __name__ == "__main__":
    place = Path(sys.argv[1])
    trainer = make(place / "out", run=place / "run", resume=True, save_steps=2)
    with (place / "drawn.txt").open("a", buffering=1) as file:

        class Told(list[list[int]]):
            """Says what is added, at once."""

            def append(self, rows: list[int]) -> None:
                file.write(json.dumps([trainer.state.global_step, rows]) + "\n")

        trainer.drawn = Told()
        trainer.train(resume_from_checkpoint=True)
    assert trainer.prompt_sampler is not None
    trainer.prompt_sampler.close()
