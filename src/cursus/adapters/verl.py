"""verl: a dataset that tells a `PromptSampler` how the groups of a batch went; both are given to `RayPPOTrainer`."""

from __future__ import annotations

from typing import Any

import numpy as np

from cursus.adapters.torch_sampler import PromptSampler
from cursus.errors import ResultError

ROW = "curriculum_row"
"""The column of a batch that says of which row of the dataset an answer is."""


class TaughtDataset:
    """The training dataset, with the row of each item in it, whose `on_batch_end` reports results to the sampler.

    Give it to `RayPPOTrainer` as `train_dataset`, and the sampler as `train_sampler`, with `data.dataloader_num_workers=0`.
    Trainer and sampler must be in one process: a copy elsewhere would be taught, and not drawn from.

    Args:
        dataset: what verl would train on: items are dicts.
        sampler: from which the trainer draws, with `repeats=1`: verl repeats prompts itself. Groups that a filter has thrown
            away are given back with its `withdraw`.
        success_reward: an answer is right when the sum of its token scores is at least this (default 1.0).
    """

    def __init__(self, dataset: Any, sampler: PromptSampler, *, success_reward: float = 1.0) -> None:
        self.dataset, self.sampler = dataset, sampler
        self._success_reward = float(success_reward)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, row: int) -> dict[str, Any]:
        return {**self.dataset[row], ROW: int(row)}

    def on_batch_end(self, batch: Any) -> None:
        """Report the groups of a `batch`: a `DataProto` with its answers and their token scores."""
        if ROW not in batch.non_tensor_batch:
            raise ResultError(f"the batch has no {ROW}: it is not of this dataset.")
        rows = np.asarray(batch.non_tensor_batch[ROW]).astype(np.int64)
        scores = np.asarray(batch.batch["token_level_scores"].sum(dim=-1).cpu())
        lengths = np.asarray(batch.batch["response_mask"].sum(dim=-1).cpu()) if "response_mask" in batch.batch else None
        prompts, which = np.unique(rows, return_inverse=True)
        answers = np.bincount(which)
        right = np.bincount(which, weights=scores >= self._success_reward).astype(np.int64)
        tokens = None if lengths is None else np.bincount(which, weights=lengths) / answers
        self.sampler.report(prompts, right, answers, tokens)
