"""TRL: a mixin by which `GRPOTrainer` draws its prompts by a curriculum, and tells it the results of their groups."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cursus.adapters.torch_sampler import PromptSampler
from cursus.curricula import Curriculum
from cursus.errors import MissingExtra, SettingsError
from cursus.runs.checkpoint import decode, encode, write_atomically
from cursus.settings import check_kind

try:
    import torch
except ImportError as error:
    raise MissingExtra.of(error, "agents") from None

if TYPE_CHECKING:

    class _Trainer:
        """What the mixin needs of a trainer."""

        args: Any
        state: Any
        model: Any
        accelerator: Any
        reward_weights: Any
        num_generations: int
        num_iterations: int
        train_dataset: Any

        def __init__(self, *args: Any, **settings: Any) -> None: ...
        def train(self, *args: Any, **settings: Any) -> Any: ...
        def _calculate_rewards(self, *args: Any, **settings: Any) -> Any: ...
        def _save_checkpoint(self, *args: Any, **settings: Any) -> Any: ...

else:
    _Trainer = object

_STATE, _BEGINNING = "curriculum.bin", "curriculum-at-the-beginning.bin"


class Taught(_Trainer):
    """A `GRPOTrainer` whose prompts a curriculum draws: `class Trainer(Taught, GRPOTrainer): ...`.

    It gives the trainer a `PromptSampler`, and reports how many answers of each group are right when their rewards are known.
    What the curriculum knows is saved in the trainer's checkpoints, and `train(resume_from_checkpoint=…)` goes on with it: a
    batch that was drawn and not generated comes again. Data are not skipped then, as nothing is read twice.

    Dataloader workers are refused, as they read ahead. The trainer itself may read one generation batch ahead.

    Args:
        *args: those of `GRPOTrainer`.
        curriculum: what decides; its tasks are the rows of `train_dataset`.
        run: folder in which everything is recorded, in the process of rank 0 (default None: nothing is).
        resume: whether to go on with the run in this folder, if there is one (default False).
        success_reward: an answer is right when the weighted sum of its rewards is at least this (default 1.0).
        **settings: those of `GRPOTrainer`.
    """

    def __init__(
        self,
        *args: Any,
        curriculum: Curriculum,
        run: str | Path | None = None,
        resume: bool = False,
        success_reward: float = 1.0,
        **settings: Any,
    ) -> None:
        check_kind("curriculum", curriculum, Curriculum, "Prompts(1000)")
        self._curriculum, self._run, self._resume = curriculum, run, resume
        self._success_reward = float(success_reward)
        self.prompt_sampler: PromptSampler | None = None
        """The sampler, from the beginning of a training on."""
        super().__init__(*args, **settings)
        if self.args.dataloader_num_workers > 0:
            raise SettingsError(
                f"dataloader_num_workers={self.args.dataloader_num_workers} reads prompts ahead, before results are known. "
                "Set it to 0: prompts are texts, and cost nothing to load."
            )
        size = len(self.train_dataset)
        if curriculum.tasks.size != size:
            raise SettingsError(
                f"the curriculum has {curriculum.tasks.size:,} tasks, train_dataset has {size:,} rows: make them as many."
            )
        self.args.ignore_data_skip = True

    # ---- the two hooks

    def _get_train_sampler(self, dataset: Any = None) -> PromptSampler:
        """The sampler of prompts, always the same one."""
        if self.prompt_sampler is None:
            self.prompt_sampler = PromptSampler(
                self._curriculum,
                batch=self.args.generation_batch_size // self.num_generations,
                repeats=self.num_generations,
                passes=self.num_iterations * self.args.steps_per_generation,
                run=self._run,
                seed=self.args.seed,
                resume=self._resume,
            )
        return self.prompt_sampler

    def _calculate_rewards(self, inputs: Any, prompts: Any, completions: Any, completion_ids_list: Any, *more: Any) -> Any:
        """The rewards of all ranks, which are reported if this is training."""
        rewards = super()._calculate_rewards(inputs, prompts, completions, completion_ids_list, *more)
        if self.model.training and self.prompt_sampler is not None:
            lengths = torch.tensor([float(len(ids)) for ids in completion_ids_list], device=rewards.device)
            self._report(rewards, self.accelerator.gather(lengths))
        return rewards

    def _report(self, rewards: Any, lengths: Any) -> None:
        """Report the groups of the oldest batch without results, which are in the order in which it was drawn."""
        sampler = self.prompt_sampler
        if sampler is None or not sampler.decides:
            return
        weights = self.reward_weights.to(rewards.device)
        right = (rewards * weights).nansum(dim=1) >= self._success_reward
        groups = right.reshape(-1, self.num_generations).sum(dim=1).cpu().numpy()
        tokens = lengths.reshape(-1, self.num_generations).mean(dim=1).cpu().numpy()
        rows = sampler.oldest()
        if len(rows) != len(groups):
            raise SettingsError(f"{len(groups)} groups were rewarded, {len(rows)} were drawn: this trainer drops some.")
        sampler.report(rows, groups.astype(np.int64), self.num_generations, tokens)

    # ---- saving

    def _save_checkpoint(self, *args: Any, **settings: Any) -> Any:
        """With what the curriculum knows, beside the trainer's own files."""
        saved = super()._save_checkpoint(*args, **settings)
        if self.prompt_sampler is not None and self.prompt_sampler.decides:
            newest = Path(self.args.output_dir) / f"checkpoint-{self.state.global_step}"
            write_atomically(newest / _STATE, encode(self.prompt_sampler.state_dict()))
        return saved

    def train(self, resume_from_checkpoint: str | bool | None = None, **settings: Any) -> Any:
        """Train; with `resume_from_checkpoint`, from that checkpoint on, also in what the curriculum knows.

        A recorded run that is resumed without a checkpoint, as it was killed before the first, goes back to its beginning.

        Args:
            resume_from_checkpoint: a folder, or True for the newest of `output_dir` that was saved to its end, and the
                beginning if there is none (default None: from the beginning).
            **settings: those of `GRPOTrainer.train`.
        """
        if resume_from_checkpoint is True:
            newest = _newest_whole(Path(self.args.output_dir))
            resume_from_checkpoint = None if newest is None else str(newest)
        first = self.prompt_sampler is None
        sampler = self._get_train_sampler()
        if sampler.decides:
            beginning = Path(self.args.output_dir) / _BEGINNING
            if resume_from_checkpoint:
                _load(sampler, Path(resume_from_checkpoint) / _STATE)
            elif first and sampler.assigned:  # by a process that died before its first checkpoint
                _load(sampler, beginning)
            elif first:
                beginning.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(beginning, encode(sampler.state_dict()))
        return super().train(resume_from_checkpoint=resume_from_checkpoint, **settings)


def _load(sampler: PromptSampler, path: Path) -> None:
    if not path.exists():
        raise SettingsError(f"{path.parent} has no {path.name}: it was saved without a curriculum, or not to its end.")
    sampler.load_state_dict(decode(path.read_bytes()))


def _saved(folder: Path) -> list[Path]:
    """The checkpoints of a trainer in its folder, the oldest first."""
    found = [each for each in folder.glob("checkpoint-*") if each.name.rpartition("-")[2].isdigit()]
    return sorted(found, key=lambda each: int(each.name.rpartition("-")[2]))


def _newest_whole(folder: Path) -> Path | None:
    """The newest checkpoint with a curriculum, which is saved last: a process that dies while it saves leaves one without."""
    saved = _saved(folder)
    whole = [each for each in saved if (each / _STATE).exists()]
    if saved and not whole:
        raise SettingsError(
            f"{saved[-1]} has no {_STATE}: it was saved without a curriculum, or not to its end. Resume from a checkpoint "
            "that was saved with one, or remove it."
        )
    return whole[-1] if whole else None
