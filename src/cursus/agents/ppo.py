"""Proximal policy optimisation, for discrete and continuous actions.

The details, each named where it stands, are those of Schulman et al. 2017 ("Proximal Policy Optimization Algorithms"), Huang
et al. 2022 ("The 37 Implementation Details of PPO", CleanRL) and Engstrom et al. 2020 ("Implementation Matters in Deep Policy
Gradients"). Settings have the names that they have in Stable-Baselines3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from cursus.agents.actors import OnPolicyActor
from cursus.agents.base import Agent
from cursus.agents.networks import RunningNorm, adam, init_orthogonal, mlp, seeded, set_gradients, set_learning_rate
from cursus.agents.policy import CategoricalPolicy, GaussianPolicy
from cursus.agents.recorded import Column, Inputs
from cursus.agents.rollout import Rollout
from cursus.errors import SettingsError, StateError
from cursus.settings import check_count, check_positive, check_share
from cursus.types import BoolArray, Tree

_ROLLOUT_ROWS, _FEWEST_STEPS, _SEQUENCE = 2048, 16, 128
_MANY_ENVS = 1024  # from here on a rollout is learned from in a few large minibatches
_METRICS = ("policy_loss", "value_loss", "entropy", "approx_kl", "clip_fraction")


class PPO(Agent):
    """Policy gradients with a clipped objective (Schulman et al. 2017).

    `act_batch` explores, `observe` stores the step in a rollout, and when the rollout is full (`rollout_full`) `update` learns
    from it in `n_epochs` passes and empties it. An episode that is truncated is bootstrapped from its true last observation,
    one that terminated is not.

    With a recurrent layer (`gru_size`) it remembers what it has seen in an episode. Its minibatches are then whole sequences:
    the rollouts of some environments, each from what was remembered at its beginning.

    Args:
        observation_size: length of an observation.
        num_actions: number of discrete actions, at least 1; or give `action_size`.
        action_size: length of a continuous action, at least 1; what environments are sent is clipped to [−1, 1].
        num_envs: number of environments that it acts for and is given steps of (default 1).
        hidden: widths of the hidden layers of the actor and of the critic (default two of 64).
        gru_size: units of a recurrent layer before both, at least 0 (default 0: no memory).
        learning_rate: step size of Adam, above 0 (default 3e-4).
        learning_rate_steps: steps of environments over which the step size falls linearly to 0, at least 1 (default None: it
            stays).
        n_steps: steps of each environment in a rollout, at least 1 (default as many as make 2,048 in all, at least 16; with
            a memory 128; with 1,024 environments or more, 32).
        batch_size: steps of one minibatch, at least 2; with a memory, as many environments as make about so many steps. What is
            left over by whole minibatches is another part of the rollout in each epoch (default 64; with a memory a quarter of
            the rollout; with 1,024 environments or more, an eighth of it).
        n_epochs: passes over a rollout, at least 1 (default 10; with 1,024 environments or more, 2).
        gamma: discount factor, in [0, 1] (default 0.99).
        gae_lambda: λ of generalised advantage estimation, in [0, 1] (default 0.95).
        clip_range: how far the ratio of new to old probabilities may be from 1 to be learned from, above 0 (default 0.2).
        clip_range_vf: how far values may move from the old ones to be learned from, above 0 (default None: as far as they do).
        ent_coef: weight of the entropy bonus, at least 0 (default 0).
        vf_coef: weight of the value loss, the mean squared error, at least 0 (default 0.5).
        max_grad_norm: norm to which gradients are clipped, above 0 (default 0.5).
        target_kl: KL divergence from the old policy at which no further epoch is begun, above 0 (default None: all are).
        normalize_observations: whether networks are given observations less their running mean, over their running standard
            deviation (default false).
        device: of PyTorch, such as `"cpu"` or `"cuda"` (default `"cpu"`).
        cuda_graphs: record updates and acts as CUDA graphs and replay them, on CUDA; otherwise launch every kernel by itself
            (default true).
        compiled: have `torch.compile` fuse the loss, and in batched environments a step of the rollout, into few kernels: it
            takes some 20 seconds at first, and pays with many environments on a GPU (default false).
        seed: of initial weights, exploration and minibatches (default 0).

    >>> agent = PPO(observation_size=4, num_actions=2, num_envs=8)
    >>> agent.act_batch(np.zeros((8, 4))).shape, agent.rollout_full
    ((8,), False)
    """

    on_policy = True

    def __init__(
        self,
        observation_size: int,
        *,
        num_actions: int | None = None,
        action_size: int | None = None,
        num_envs: int = 1,
        hidden: Sequence[int] = (64, 64),
        gru_size: int = 0,
        learning_rate: float = 3e-4,
        learning_rate_steps: int | None = None,
        n_steps: int | None = None,
        batch_size: int | None = None,
        n_epochs: int | None = None,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        clip_range: float = 0.2,
        clip_range_vf: float | None = None,
        ent_coef: float = 0.0,
        vf_coef: float = 0.5,
        max_grad_norm: float = 0.5,
        target_kl: float | None = None,
        normalize_observations: bool = False,
        device: str = "cpu",
        cuda_graphs: bool = True,
        compiled: bool = False,
        seed: int = 0,
    ) -> None:
        check_count("num_envs", num_envs)
        check_count("gru_size", gru_size, low=0)
        many = num_envs >= _MANY_ENVS
        if n_steps is None:
            n_steps = 32 if many else _SEQUENCE if gru_size else max(_ROLLOUT_ROWS // num_envs, _FEWEST_STEPS)
        if n_epochs is None:
            n_epochs = 2 if many else 10
        _check_counts(n_steps=n_steps, n_epochs=n_epochs, learning_rate_steps=learning_rate_steps)
        if batch_size is None:
            parts = 8 if many else 4
            batch_size = max(n_steps * num_envs // parts, 2) if many or gru_size else 64
        check_count("batch_size", batch_size, low=2)
        if n_steps * num_envs < batch_size:
            raise SettingsError(
                f"batch_size={batch_size} is more than a rollout of n_steps={n_steps} steps of {num_envs} environments holds. "
                f"Give at most {n_steps * num_envs}, or more n_steps."
            )
        _check_positives(learning_rate=learning_rate, clip_range=clip_range, max_grad_norm=max_grad_norm)
        _check_positives(clip_range_vf=clip_range_vf, target_kl=target_kl)
        check_share("gamma", gamma)
        check_share("gae_lambda", gae_lambda)
        check_positive("ent_coef", ent_coef, zero=True)
        check_positive("vf_coef", vf_coef, zero=True)
        settings = {
            "observation_size": int(observation_size),
            **_action_settings(num_actions, action_size),
            "hidden": [int(width) for width in hidden],
            "gru_size": int(gru_size),
            "normalize_observations": normalize_observations,
        }
        super().__init__(settings, device=device, seed=seed, cuda_graphs=cuda_graphs)
        self._policy = GaussianPolicy if num_actions is None else CategoricalPolicy
        self._learning_rate, self._learning_rate_steps = learning_rate, learning_rate_steps
        self._num_envs, self._n_epochs = num_envs, n_epochs
        # A minibatch has so many parts of a rollout: steps or, with a memory, the sequences of environments.
        self._batch_parts = max(batch_size // n_steps, 1) if gru_size else batch_size
        self._gamma, self._gae_lambda = gamma, gae_lambda
        self._clip_range, self._clip_range_vf, self._target_kl = clip_range, clip_range_vf, target_kl
        self._ent_coef, self._vf_coef, self._max_grad_norm = ent_coef, vf_coef, max_grad_norm
        self.compiled = compiled
        """Whether kernels are fused by `torch.compile`."""
        self._losses_of: Callable[[Mapping[str, Tensor]], tuple[Tensor, Tensor]] = (
            torch.compile(self._losses, dynamic=False) if compiled else self._losses
        )
        with seeded(seed):
            self._build_networks()
        self._optimiser = adam(self._both, learning_rate, self.device, eps=1e-5)  # Huang et al., detail 3
        self._prepare(n_steps)

    def _build_networks(self) -> None:
        """Separate networks of tanh layers with orthogonal weights, small in the policy's last (details 2 and 13)."""
        actor: Any = self._policy.build(self._settings)
        self._actor: OnPolicyActor = actor
        self._actor.normalizer = self._normalizer
        features = self._settings["observation_size"] + self._settings["gru_size"]
        self._critic = mlp(features, self._settings["hidden"], 1, nn.Tanh)
        init_orthogonal(self._actor.net, 0.01)
        init_orthogonal(self._critic, 1.0)
        self._both = nn.ModuleList([self._actor, self._critic]).to(self.device)

    def _prepare(self, n_steps: int) -> None:
        """The rollout, and what is recorded."""
        continuous = self._policy is GaussianPolicy
        seen: Column = ((self._settings["observation_size"],), torch.float32)
        done: Column = ((self._settings["action_size"],), torch.float32) if continuous else ((), torch.int64)
        self._rollout = Rollout({"observations": seen, "actions": done}, n_steps, self._num_envs, self.device)
        self._noise = torch.zeros((self._num_envs, self._actor.noise_size), device=self.device)
        gru_size = self._settings["gru_size"]
        self.memory = torch.zeros((self._num_envs, gru_size), device=self.device)
        """What is remembered in each environment before it acts, shape `(num_envs, gru_size)`; zeros at the beginning."""
        self._memory_after, self._first_memory = self.memory.clone(), self.memory.clone()  # of acting; of the rollout
        number, flag = ((), torch.float32), ((), torch.bool)
        ends = {"rewards": number, "terminated": flag, "ended": flag, "valid": flag}
        self._ends = Inputs(_rows(ends, self._num_envs), self.device)
        self._exploring = self._record(self._explore, _rows({"observations": seen}, self._num_envs))
        self._valuing = self._record(self._value, _rows({"observations": seen}, self._num_envs))
        learned = {"observations": seen, "actions": done, "log_probs": number, "values": number, "advantages": number}
        if gru_size:
            learned = {**_rows({**learned, "begins": flag, "valid": flag}, n_steps), "memory": ((gru_size,), torch.float32)}
        self._learning = self._record(self._learn, _rows(learned, self._batch_parts))
        self._acted: tuple[dict[str, Tensor], NDArray[Any]] | None = None

    @property
    def rollout_full(self) -> bool:
        """Whether `update` is due, before anything else is observed."""
        return self._rollout.full

    def act_batch(self, observations: ArrayLike, *, deterministic: bool = False) -> NDArray[Any]:
        """Draws from the distribution, of which `observe` then stores the probabilities; its best or mean if deterministic."""
        rows = np.asarray(observations)
        if deterministic:
            if self._settings["gru_size"]:
                raise StateError("a PPO with a memory explores. To act without exploring, take freeze() and its act_from.")
            return self._actions(observations=rows)
        if rows.shape != (self._num_envs, self._settings["observation_size"]):
            raise SettingsError(
                f"observations are of shape {rows.shape}. PPO explores in its {self._num_envs} environments together "
                f"(num_envs), with observations of {self._settings['observation_size']} numbers."
            )
        self.draw_noise(self._noise)
        self._exploring.inputs()["observations"][...] = rows
        acted, sent = self._exploring()
        actions: NDArray[Any] = sent.cpu().numpy()
        self._acted = acted, actions.copy()
        return actions

    def _act(self, given: Mapping[str, Tensor]) -> Tensor:
        return self._actor.best(given["observations"])

    def _explore(self, given: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], Tensor]:
        kept, sent, after = self.explore(given["observations"], self._noise, self.memory)
        self._memory_after.copy_(after)
        return kept, sent

    def _value(self, given: Mapping[str, Tensor]) -> Tensor:
        return self.values(given["observations"], self._memory_after)

    # ---- for who plays rollouts on the device

    @property
    def rollout(self) -> Rollout:
        """What `update` learns from."""
        return self._rollout

    def draw_noise(self, noise: Tensor) -> None:
        """Fill `noise`, whose last dimension is `noise_size`; `explore` then acts by it."""
        self._actor.draw_noise(noise, self._torch_rng)

    @property
    def noise_size(self) -> int:
        """How many numbers of noise one action takes."""
        return self._actor.noise_size

    @torch.no_grad()
    def explore(self, observations: Tensor, noise: Tensor, memory: Tensor) -> tuple[dict[str, Tensor], Tensor, Tensor]:
        """What the rollout keeps of acting, the actions that environments are sent, and the memory after it.

        Args:
            observations: as tensors on the device, a row for each environment.
            noise: from `draw_noise`.
            memory: before, such as `self.memory`; zeros where an episode begins.
        """
        seen = self._normalizer(observations)
        features, memory = self._actor.remember(seen, memory)
        actions, log_probs = self._actor.sample(features, noise)
        values = self._critic(features).squeeze(1)
        kept = {"observations": seen, "actions": actions, "log_probs": log_probs, "values": values}
        return kept, self._actor.clip(actions), memory

    @torch.no_grad()
    def values(self, observations: Tensor, memory: Tensor) -> Tensor:
        """What the critic expects of `observations`, with a `memory` from before them; tensors on the device."""
        features, _ = self._actor.remember(self._normalizer(observations), memory)
        values: Tensor = self._critic(features).squeeze(1)
        return values

    def begin_rollout(self) -> None:
        """What is remembered now is where the sequences of the next rollout begin."""
        self._first_memory.copy_(self.memory)

    def forget(self, begun: BoolArray) -> None:
        """Where `begun` is true an episode begins that was not to be expected, of shape `(num_envs,)`."""
        self.memory[torch.as_tensor(begun, device=self.device)] = 0.0

    def normalize(self, observations: Tensor) -> None:
        """Take `observations` into account where they are normalized; tensors on the device."""
        if isinstance(self._normalizer, RunningNorm):
            self._normalizer.update(observations)

    def count(self, steps: int, episodes: int) -> None:
        """So many `steps` and `episodes` of environments are in the rollout, which is full."""
        self._rollout.fill()
        self.steps += steps
        self.episodes += episodes

    def _store(
        self,
        observations: NDArray[Any],
        actions: NDArray[Any],
        rewards: NDArray[Any],
        next_observations: NDArray[Any],
        terminated: BoolArray,
        truncated: BoolArray,
        valid: BoolArray,
    ) -> None:
        if self.rollout_full:
            raise StateError("the rollout is full. Call update before the next step is observed.")
        if self._acted is None or not np.array_equal(self._acted[1], actions):
            raise StateError("PPO learns from its own actions alone. Observe what act_batch gave last, unchanged and once.")
        given, ends = self._ends.arrays(), terminated | truncated
        for name, array in (("rewards", rewards), ("terminated", terminated), ("ended", ends), ("valid", valid)):
            given[name][...] = array
        step = {**self._acted[0], **self._ends.send()}
        if truncated.any() or self._rollout.nearly_full:  # elsewhere the next step's value is that of what came of this one
            self._valuing.inputs()["observations"][...] = next_observations
            step["next_values"] = self._valuing()
        if self._settings["gru_size"]:
            if not len(self._rollout):
                self.begin_rollout()
            self.memory.copy_(self._memory_after * ~step["ended"][:, None])
        self._rollout.add(**step)
        self._acted = None

    def rollout_values(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Advantages and values of all steps of the rollout, also of those that are not learned from; `(n_steps, num_envs)`.

        From these `cursus.curricula.scores.RolloutScorer` scores episodes for curricula that ask for it.
        """
        advantages = self._rollout.advantages(self._gamma, self._gae_lambda, of_all=True)
        return advantages.cpu().numpy(), self._rollout["values"].cpu().numpy()

    def update(self) -> dict[str, float]:
        """Learn from a full rollout in up to `n_epochs` passes, and empty it. Metrics are means over all gradient steps."""
        return self.update_async()()

    def update_async(self) -> Callable[[], dict[str, float]]:
        """An update that runs on the device while this process goes on; what is returned waits for it, and gives metrics."""
        if not self.rollout_full:
            raise StateError(
                f"the rollout is not full: it holds {len(self._rollout)} steps. Call update when rollout_full says so."
            )
        metrics = self._learn_all(*self._parts()) if self._rollout["valid"].any() else dict
        self._rollout.clear()
        return metrics

    def _parts(self) -> tuple[dict[str, Tensor], Tensor]:
        """The rollout in parts that are learned from in any order, and which of them: see `_batch_parts`."""
        rollout = self._rollout
        kept = {name: rollout[name] for name in ("observations", "actions", "log_probs", "values")}
        kept["advantages"] = rollout.advantages(self._gamma, self._gae_lambda)
        if not self._settings["gru_size"]:
            rows = rollout["valid"].flatten().nonzero().squeeze(1)
            return {name: column.flatten(0, 1) for name, column in kept.items()}, rows
        begins = rollout["ended"].roll(1, dims=0)
        begins[0] = False
        kept |= {"begins": begins, "valid": rollout["valid"]}
        sequences = {name: column.transpose(0, 1) for name, column in kept.items()}
        return {**sequences, "memory": self._first_memory}, rollout["valid"].any(dim=0).nonzero().squeeze(1)

    def _learn_all(self, rollout: Mapping[str, Tensor], rows: Tensor) -> Callable[[], dict[str, float]]:
        """All epochs, each with the parts in another order; what was measured."""
        rate = self._rate_at(self.steps - rollout["advantages"][rows].numel())
        set_learning_rate(self._optimiser, rate)
        measured: list[Tensor] = []
        for _ in range(self._n_epochs):
            measured += (epoch := self._learn_epoch(rollout, rows))
            self.updates += len(epoch)
            if self._target_kl is not None and torch.stack(epoch).mean(dim=0)[_METRICS.index("approx_kl")] > self._target_kl:
                break
        metrics = dict(zip(_METRICS, torch.stack(measured).mean(dim=0), strict=True))
        metrics["explained_variance"] = _explained_variance(rollout["values"][rows], rollout["advantages"][rows])
        return lambda: {**self._read(metrics), "learning_rate": rate}

    def _learn_epoch(self, rollout: Mapping[str, Tensor], rows: Tensor) -> list[Tensor]:
        """Shuffle once, then learn from one slice after the other."""
        order = rows[torch.randperm(len(rows), generator=self._torch_rng, device=self.device)]
        if len(rows) < self._batch_parts:  # most were not valid: some more than once, so that a minibatch is of its size
            order = order.repeat(-(-self._batch_parts // len(rows)))
        shuffled = {name: column[order] for name, column in rollout.items()}
        measured = []
        for end in range(self._batch_parts, len(order) + 1, self._batch_parts):
            part = slice(end - self._batch_parts, end)
            found = self._learning.of({name: column[part] for name, column in shuffled.items()})
            measured.append(found.clone())  # the next replay overwrites it
        return measured

    def _learn(self, batch: Mapping[str, Tensor]) -> Tensor:
        """One gradient step, and its metrics."""
        loss, metrics = self._losses_of(batch)
        set_gradients(loss, self._both)
        nn.utils.clip_grad_norm_(self._both.parameters(), self._max_grad_norm)  # detail 11
        self._optimiser.step()
        return metrics.detach()

    def _losses(self, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """What is minimised, and the metrics."""
        batch, mean = self._steps_of(batch)
        log_probs, entropies = self._actor.evaluate(batch["features"], batch["actions"])
        log_ratio = log_probs - batch["log_probs"]
        ratio = log_ratio.exp()
        advantages = batch["advantages"] - mean(batch["advantages"])  # normalised in each minibatch (detail 7)
        advantages = advantages / (mean(advantages.square()).sqrt() + 1e-8)
        clipped = ratio.clamp(1.0 - self._clip_range, 1.0 + self._clip_range)
        policy_loss = -mean(torch.min(advantages * ratio, advantages * clipped))
        value_loss, entropy = mean(self._value_errors(batch)), mean(entropies)
        loss = policy_loss + self._vf_coef * value_loss - self._ent_coef * entropy
        with torch.no_grad():
            approx_kl = mean(ratio - 1.0 - log_ratio)  # never negative, of low variance (Schulman 2020; detail 12)
            clip_fraction = mean(((ratio - 1.0).abs() > self._clip_range).float())
            return loss, torch.stack([policy_loss, value_loss, entropy, approx_kl, clip_fraction])

    def _steps_of(self, batch: Mapping[str, Tensor]) -> tuple[Mapping[str, Tensor], Callable[[Tensor], Tensor]]:
        """A row for each step, with the features that actor and critic read; and the mean over those that are valid."""
        if not self._settings["gru_size"]:
            return {**batch, "features": batch["observations"]}, torch.mean
        features = self._actor.unroll(batch["observations"], batch["memory"], batch["begins"])
        steps = {name: column.flatten(0, 1) for name, column in batch.items() if name != "memory"}
        count = steps["valid"].sum()
        return {**steps, "features": features.flatten(0, 1)}, lambda column: (column * steps["valid"]).sum() / count

    def _value_errors(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Squared errors, if `clip_range_vf` is given clipped (detail 9; Engstrom et al. 2020 find that it does not help)."""
        values, returns = self._critic(batch["features"]).squeeze(1), batch["advantages"] + batch["values"]
        errors: Tensor = (values - returns).square()
        if self._clip_range_vf is not None:
            moved = (values - batch["values"]).clamp(-self._clip_range_vf, self._clip_range_vf)
            errors = torch.max(errors, (batch["values"] + moved - returns).square())
        return errors

    def _rate_at(self, steps: int) -> float:
        """The step size, annealed if it is to be (detail 4)."""
        if self._learning_rate_steps is None:
            return self._learning_rate
        return self._learning_rate * max(1.0 - steps / self._learning_rate_steps, 0.0)

    def _networks(self) -> Mapping[str, nn.Module]:
        return {"actor": self._actor, "critic": self._critic}

    def _optimisers(self) -> Mapping[str, torch.optim.Optimizer]:
        return {"both": self._optimiser}

    def _stored(self) -> dict[str, Tree]:
        memories = {"memory": self.memory, "first_memory": self._first_memory}
        return {"rollout": self._rollout.state(), **{name: each.cpu().numpy().copy() for name, each in memories.items()}}

    def _load_stored(self, state: Tree) -> None:
        self._learning.forget()
        self._rollout.load(state["rollout"])
        for memory, saved in ((self.memory, state["memory"]), (self._first_memory, state["first_memory"])):
            if len(saved) == self._num_envs:
                memory.copy_(torch.as_tensor(saved))
            else:
                memory.zero_()
        self._acted = None


def _action_settings(num_actions: int | None, action_size: int | None) -> dict[str, int]:
    given = {name: value for name, value in (("num_actions", num_actions), ("action_size", action_size)) if value is not None}
    if len(given) != 1:
        raise SettingsError(
            "PPO needs num_actions if actions are discrete, or action_size if they are continuous: one of them."
        )
    _check_counts(**given)
    return {name: int(value) for name, value in given.items()}


def _rows(columns: Mapping[str, Column], count: int) -> dict[str, Column]:
    return {name: ((count, *shape), dtype) for name, (shape, dtype) in columns.items()}


def _check_counts(**given: int | None) -> None:
    for name, value in given.items():
        if value is not None:
            check_count(name, value)


def _check_positives(**given: float | None) -> None:
    for name, value in given.items():
        if value is not None:
            check_positive(name, value)


def _explained_variance(values: Tensor, advantages: Tensor) -> Tensor:
    """1 − Var(return − value) / Var(return): 1 for a critic that is right, 0 for one that knows nothing."""
    return 1.0 - advantages.var(correction=0) / (advantages + values).var(correction=0).clamp_min(1e-8)
