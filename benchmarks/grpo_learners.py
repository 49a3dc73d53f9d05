"""Many small language models that learn to add by GRPO, side by side: weights are stacked, so that one kernel serves all.

A prompt is a sum, `a + b`, whose digits are interleaved, the lowest first; the answer is its digits, the lowest first. There is
a reward if every digit is right and none otherwise, and nothing else teaches: no examples, no weights from elsewhere. An answer
to `n` digits is thus found by chance only once `n - 1` digits are known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cursus.agents.recorded import Recorded
from prompt_worlds import BATCH, GROUP, Ints

ADD, IMPOSSIBLE, KNOWN, COIN = range(4)
"""What a verifier does: it checks the sum, says no, says yes, or flips a coin."""
LARGEST_LOGIT = 3.0
"""Logits are capped softly, so that no model is ever so sure of itself that it stops to explore."""
NOWHERE = 2 * BATCH
"""Where groups are put that nobody learns from."""


@dataclass(frozen=True)
class Sums:
    """The prompts of a training, as tensors: a row for each."""

    base: int
    digits: int
    """Of the longest sum."""
    tokens: Tensor
    answers: Tensor
    lengths: Tensor
    """Of the answers."""
    verifiers: Tensor
    labels: Ints
    """A number for every verifier and length."""

    @classmethod
    def make(cls, base: int, digits: int, per_label: int, verifiers: Mapping[int, int], seed: int) -> Sums:
        """`per_label` prompts for each label; `verifiers` says how many lengths, from 1 on, each verifier has."""
        rng = np.random.default_rng([seed, 7])
        parts = [(verifier, length) for verifier, count in verifiers.items() for length in range(1, count + 1)]
        kinds, lengths = (np.repeat(column, per_label) for column in zip(*parts, strict=True))
        labels = np.repeat(np.arange(len(parts)), per_label)
        there = np.arange(digits) < lengths[:, None]
        first, second = (rng.integers(0, base, there.shape) * there for _ in range(2))
        answers, carry = np.zeros((len(lengths), digits + 1), dtype=np.int64), np.zeros(len(lengths), dtype=np.int64)
        for place in range(digits):
            total = first[:, place] + second[:, place] + carry
            answers[:, place], carry = total % base, total // base
        blank, equals, source = base, base + 1, base + 2 + kinds
        pairs = np.where(there[:, :, None], np.stack([first, second], axis=2), blank).reshape(len(lengths), -1)
        tokens = np.column_stack([source, pairs, np.full(len(lengths), equals)])
        columns = (torch.as_tensor(each) for each in (tokens, answers, lengths + 1, kinds))
        return cls(base, digits, *columns, labels)

    def to(self, device: torch.device) -> Sums:
        """The same on a device."""
        moved = (each.to(device) for each in (self.tokens, self.answers, self.lengths, self.verifiers))
        return Sums(self.base, self.digits, *moved, self.labels)


class Transformers:
    """Decoders of `layers` layers, `count` of them: every weight has one axis more, in front."""

    def __init__(self, count: int, sums: Sums, width: int, layers: int, device: torch.device, seed: int) -> None:
        self.count, self.width, self.layers, self.heads = count, width, layers, max(width // 32, 1)
        self.prompt, self.answer = sums.tokens.shape[1], sums.digits + 1
        self.base, vocabulary = sums.base, sums.base + 6
        self.dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        random = torch.Generator().manual_seed(seed)
        self.weights: dict[str, Tensor] = {}

        def add(name: str, *shape: int, scale: float) -> None:
            value = torch.randn(count, *shape, generator=random) * scale if scale else torch.zeros(count, *shape)
            self.weights[name] = value.to(device).requires_grad_()

        add("token", vocabulary, width, scale=0.5)
        add("index", sums.digits + 1, width, scale=0.5)
        add("role", 4, width, scale=0.5)
        for layer in range(layers):
            add(f"qkv{layer}", width, 3 * width, scale=width**-0.5)
            add(f"out{layer}", width, width, scale=width**-0.5 / math.sqrt(2 * layers))
            add(f"up{layer}", width, 4 * width, scale=width**-0.5)
            add(f"down{layer}", 4 * width, width, scale=(4 * width) ** -0.5 / math.sqrt(2 * layers))
        add("head", width, vocabulary, scale=0.02)
        places = np.repeat(np.arange(sums.digits), 2)
        index = np.concatenate([[0], places, np.arange(self.answer)])  # a place is that of the digits, or of what comes next
        role = np.concatenate([[0], np.tile([1, 2], sums.digits), np.full(self.answer, 3)])
        self._index, self._role = torch.as_tensor(index, device=device), torch.as_tensor(role, device=device)
        self._of_model = torch.arange(count, device=device)[:, None] * vocabulary

    def _embed(self, tokens: Tensor, begin: int) -> Tensor:
        """(models, rows, length) to (models, rows, length, width); the first token has place `begin`."""
        rows = (tokens.flatten(1) + self._of_model).view(tokens.shape)
        embedded = torch.nn.functional.embedding(rows, self.weights["token"].flatten(0, 1))
        places = slice(begin, begin + tokens.shape[2])
        where = self.weights["index"][:, self._index[places]] + self.weights["role"][:, self._role[places]]
        return (embedded + where[:, None]).to(self.dtype)

    def _linear(self, name: str, x: Tensor) -> Tensor:
        found = torch.bmm(x.flatten(1, 2), self.weights[name].to(self.dtype))
        return found.view(*x.shape[:3], -1)

    def run(self, tokens: Tensor, begin: int = 0, cache: list[Tensor] | None = None) -> Tensor:
        """Logits of what comes after each token; `cache` holds keys and values of what came before, and is added to."""
        x = self._embed(tokens, begin)
        models, rows, length, width = x.shape
        for layer in range(self.layers):
            qkv = self._linear(f"qkv{layer}", _normed(x)).view(models * rows, length, 3, self.heads, width // self.heads)
            query, key, value = qkv.permute(2, 0, 3, 1, 4)
            if cache is not None:
                if begin:
                    key, value = (torch.cat(pair, dim=2) for pair in zip(cache[layer], (key, value), strict=True))
                    cache[layer] = torch.stack([key, value])
                else:
                    cache.append(torch.stack([key, value]))
            found = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=begin == 0)
            x = x + self._linear(f"out{layer}", found.transpose(1, 2).reshape(x.shape))
            x = x + self._linear(f"down{layer}", torch.nn.functional.gelu(self._linear(f"up{layer}", _normed(x))))
        return LARGEST_LOGIT * torch.tanh(self._linear("head", _normed(x)).float() / LARGEST_LOGIT)

    @torch.no_grad()
    def generate(self, prompts: Tensor, *, greedy: bool) -> Tensor:
        """Answers to (models, rows, length) tokens, all of the longest length; a verifier looks at as many as it wants."""
        cache: list[Tensor] = []
        logits = self.run(prompts, cache=cache)[:, :, -1, : self.base]
        found: list[Tensor] = []
        for place in range(self.answer):
            if not greedy:
                logits = logits - torch.empty_like(logits).exponential_().log()  # the largest is a sample (Gumbel)
            found.append(logits.argmax(dim=2))
            if place + 1 < self.answer:
                logits = self.run(found[-1][:, :, None], self.prompt + place, cache)[:, :, -1, : self.base]
        return torch.stack(found, dim=2)


def _normed(x: Tensor) -> Tensor:
    return torch.nn.functional.rms_norm(x, (x.shape[-1],))


class Learners:
    """GRPO (Shao et al. 2024) on policy, for models of which each has a batch of its own."""

    def __init__(
        self,
        count: int,
        sums: Sums,
        device: torch.device,
        *,
        width: int,
        layers: int,
        learning_rate: float,
        entropy: float,
        seed: int,
        compiled: bool,
    ) -> None:
        self.sums, self.models = sums.to(device), Transformers(count, sums, width, layers, device, seed)
        self._rate, self._entropy = learning_rate, entropy
        self._loss = torch.compile(self._losses, dynamic=False) if compiled else self._losses
        self._moments = [(torch.zeros_like(w), torch.zeros_like(w)) for w in self.models.weights.values()]
        self._updates = torch.zeros(count, device=device)
        answer = self.models.answer
        self._kept = torch.zeros((count, NOWHERE + 1), dtype=torch.int64, device=device)
        self._answers = torch.zeros((count, NOWHERE + 1, GROUP, answer), dtype=torch.int64, device=device)
        self._right = torch.zeros((count, NOWHERE + 1, GROUP), device=device)
        batch = ((count, BATCH), torch.int64)
        self._generating = Recorded(self._generate, {"prompts": batch}, device)
        self._updating = Recorded(self._update, {"slots": batch, "ready": ((count,), torch.float32)}, device)
        torch.manual_seed(seed)
        if device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def generate(self, prompts: Ints) -> NDArray[np.int64]:
        """How many answers of a group are right, for (models, groups) prompts."""
        self._generating.inputs()["prompts"][:] = prompts
        solved: Tensor = self._generating()
        return solved.cpu().numpy()

    def _generate(self, inputs: Mapping[str, Tensor]) -> Tensor:
        self._drawn = inputs["prompts"]
        rows = self._drawn.repeat_interleave(GROUP, dim=1)
        self._found = self.models.generate(self.sums.tokens[rows], greedy=False)
        right = is_right(self._found, self.sums.answers[rows], self.sums.lengths[rows])
        verifier = self.sums.verifiers[rows]
        verdict = torch.where(verifier == COIN, torch.rand(right.shape, device=right.device) < 0.5, (verifier == ADD) & right)
        self._rewards = torch.where(verifier == KNOWN, True, verdict).float().unflatten(1, (BATCH, GROUP))
        return self._rewards.sum(dim=2).long()

    def learn(self, slots: Ints, ready: NDArray[np.bool_]) -> None:
        """Put the groups generated last into slots, or `NOWHERE`; who is ready learns from those in the first `BATCH`."""
        inputs = self._updating.inputs()
        inputs["slots"][:], inputs["ready"][:] = slots, ready
        self._updating()

    def _update(self, inputs: Mapping[str, Tensor]) -> None:
        slots, ready = inputs["slots"], inputs["ready"]
        model = torch.arange(slots.shape[0], device=slots.device)[:, None]
        self._kept[model, slots] = self._drawn
        self._answers[model, slots] = self._found.unflatten(1, (BATCH, GROUP))
        self._right[model, slots] = self._rewards
        loss = self._loss(self._kept[:, :BATCH], self._answers[:, :BATCH], self._right[:, :BATCH])
        gradients = torch.autograd.grad(loss, list(self.models.weights.values()))
        self._step(gradients, ready)

    def _losses(self, drawn: Tensor, answers: Tensor, rewards: Tensor) -> Tensor:
        advantages = (rewards - rewards.mean(dim=2, keepdim=True)) / (rewards.std(dim=2, keepdim=True) + 1e-4)
        rows, found = drawn.repeat_interleave(GROUP, dim=1), answers.flatten(1, 2)
        tokens = torch.cat([self.sums.tokens[rows], found[:, :, :-1]], dim=2)
        logits = self.models.run(tokens)[:, :, self.models.prompt - 1 :, : self.models.base]
        logs = logits.log_softmax(dim=3)
        of_taken = logs.gather(3, found[..., None]).squeeze(3)
        said = torch.arange(self.models.answer, device=rows.device) < self.sums.lengths[rows][..., None]
        entropies = -(logs.exp() * logs).sum(dim=3)
        gains = (advantages.flatten(1)[..., None] * of_taken + self._entropy * entropies) * said
        return -(gains.sum(dim=(1, 2)) / said.sum(dim=(1, 2))).sum()

    @torch.no_grad()
    def _step(self, gradients: tuple[Tensor, ...], ready: Tensor) -> None:
        """Adam, of those that are ready; each gradient is clipped to a norm of 1."""
        self._updates += ready
        squares = torch.stack([gradient.flatten(1).square().sum(dim=1) for gradient in gradients]).sum(dim=0)
        clip = 1 / squares.sqrt().clamp(min=1)
        warm = (self._updates / 20).clamp(max=1) * self._rate
        once = self._updates.clamp(min=1)
        for weight, gradient, (mean, square) in zip(self.models.weights.values(), gradients, self._moments, strict=True):
            shape = (-1, *[1] * (weight.dim() - 1))
            own, live = gradient * clip.view(shape), ready.view(shape)
            mean.lerp_(own, 0.1 * live)
            square.lerp_(own.square(), 0.01 * live)
            corrected = (square / (1 - 0.99**once).view(shape)).sqrt() + 1e-8
            weight -= live * warm.view(shape) * mean / (1 - 0.9**once).view(shape) / corrected

    def exam(self, sums: Sums) -> NDArray[np.float64]:
        """The share of other sums that each model gets right, (models, labels)."""
        exam, count = sums.to(self._kept.device), len(sums.labels)
        found = self.models.generate(exam.tokens.expand(self.models.count, -1, -1), greedy=True)
        right = is_right(found, exam.answers, exam.lengths).float()
        labels = int(sums.labels.max()) + 1
        return right.view(-1, labels, count // labels).mean(dim=2).double().cpu().numpy()


def is_right(found: Tensor, answers: Tensor, lengths: Tensor) -> Tensor:
    """Whether every digit of each answer is right, up to its length."""
    beyond = torch.arange(found.shape[-1], device=found.device) >= lengths[..., None]
    return ((found == answers) | beyond).all(dim=-1)
