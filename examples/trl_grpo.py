"""TRL's GRPOTrainer with a curriculum over its prompts: a tiny model learns to answer, and some prompts have no right answer.

pip install "cursus-rl[trl]"
python trl_grpo.py --steps 60    # half a minute on a CPU: a GPT-2 of one layer, with random weights and a few words
"""

import numpy as np
import torch
import trl
import tyro
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

import cursus
from cursus.adapters.trl import Taught
from cursus.runs import read_events

NUMBERS, GROUP, RUN = 24, 8, "runs/grpo"
WORDS = ["<pad>", "<eos>", "<unk>", "say", "guess", *map(str, range(NUMBERS))]
SOURCES = ["say", "guess"]  # "say 3" is answered by 3; what "guess 3" wants, nobody can know


class Trainer(Taught, trl.GRPOTrainer):
    """GRPOTrainer, whose prompts a curriculum draws."""


def is_right(prompts, completions, **_):
    """1 for a right answer, 0 for a wrong one."""
    return [
        float(prompt.startswith("say") and completion.split()[:1] == prompt.split()[1:])
        for prompt, completion in zip(prompts, completions, strict=True)
    ]


def tiny_model():
    plain = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token=WORDS[2]))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
    config = GPT2Config(vocab_size=len(WORDS), n_positions=16, n_embd=64, n_layer=1, n_head=2, bos_token_id=1, eos_token_id=1)
    return GPT2LMHeadModel(config), PreTrainedTokenizerFast(tokenizer_object=plain, padding_side="left", **special)


def main(steps: int = 60, seed: int = 1) -> None:
    torch.manual_seed(seed)
    model, tokenizer = tiny_model()
    prompts = [f"{source} {number}" for source in SOURCES for number in range(NUMBERS)]
    curriculum = cursus.Prompts(len(prompts), labels=[prompt.split()[0] for prompt in prompts])
    arguments = trl.GRPOConfig(
        output_dir=f"{RUN}/trainer",
        max_steps=steps,
        per_device_train_batch_size=8 * GROUP,
        num_generations=GROUP,
        max_completion_length=1,
        learning_rate=3e-3,
        use_cpu=not torch.cuda.is_available(),
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        seed=seed,
    )
    data = Dataset.from_dict({"prompt": prompts})
    trainer = Trainer(model, is_right, arguments, data, processing_class=tokenizer, curriculum=curriculum, run=RUN)
    trainer.train()
    trainer.prompt_sampler.close()
    print(curriculum.explain())
    events = list(read_events(RUN))
    drawn = np.concatenate([event["task"] for event in events if event["event"] == "assign"])
    right = np.concatenate([event["successes"] for event in events if event["event"] == "finish"])
    for part in (0, -1):
        some, answers = np.array_split(drawn, 4)[part], np.array_split(right, 4)[part]
        print(f"{'last' if part else 'first'} quarter: {np.mean(some < NUMBERS):.0%} of the prompts have an answer,", end=" ")
        print(f"{np.mean(answers) / GROUP:.0%} of what was said is right")


if __name__ == "__main__":
    tyro.cli(main)
