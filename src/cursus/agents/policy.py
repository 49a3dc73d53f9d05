"""Frozen policies, for opponents and evaluation; their weights in safetensors files that say what they are, never pickled."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, ClassVar
from zlib import crc32

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from safetensors import SafetensorError
from safetensors.torch import load as read_safetensors
from safetensors.torch import save as to_safetensors
from torch import Tensor, nn

from cursus._files import read_regular
from cursus.agents.networks import DuelingQ, SquashedGaussian
from cursus.errors import CheckpointError, StateError
from cursus.randomness import rng_state, set_rng
from cursus.runs.checkpoint import write_atomically
from cursus.settings import check_count, check_share
from cursus.types import Tree

_METADATA_KEY = "cursus"
_MOST_BYTES = 1 << 34
_ADVICE = "Save the weights again, with save_weights of an agent or save of a policy."


class Policy(ABC):
    """A network that acts and does not learn: `Agent.freeze` makes one, `load_policy` reads one from a file.

    Args:
        network: what `build` made of the settings, with its weights.
        settings: what the network is built from, as JSON values.
        device: of PyTorch.
        seed: of the random stream for acts that are not deterministic.

    >>> from cursus.agents import DDDQN
    >>> policy = DDDQN(observation_size=4, num_actions=2).freeze()
    >>> policy.act_batch(np.zeros((3, 4))).shape, policy.kind, policy.settings["observation_size"]
    ((3,), 'dddqn', 4)
    """

    kind: ClassVar[str]
    """The agent that such policies come from, in files."""
    part: ClassVar[str]
    """The network of that agent which acts."""

    def __init__(self, network: nn.Module, settings: Mapping[str, Any], device: str | torch.device, seed: int) -> None:
        self.device = torch.device(device)
        self.settings = dict(settings)
        """What the network is built from, as JSON values."""
        self._network = network.to(self.device).eval().requires_grad_(False)
        self._seed(seed)

    @staticmethod
    @abstractmethod
    def build(settings: Mapping[str, Any]) -> nn.Module:
        """A network of these `settings`."""

    @abstractmethod
    def _seed(self, seed: int) -> None:
        """Begin the random stream."""

    def act_with(self, network: nn.Module) -> None:
        """Act with a `network` of somebody else, who may change it."""
        self._network = network

    @abstractmethod
    def act_batch(self, observations: ArrayLike, *, deterministic: bool = True) -> NDArray[Any]:
        """An action for each row of observations, from one forward pass.

        Args:
            observations: of shape `(batch, observation_size)`.
            deterministic: the best actions, rather than a sample of the distribution (default true).
        """

    def act(self, observation: ArrayLike, *, deterministic: bool = True) -> Any:
        """An action for one `observation`; a sample if not `deterministic`."""
        return self.act_batch(np.asarray(observation)[None], deterministic=deterministic)[0]

    def save(self, path: str | Path) -> None:
        """Write the weights to `path`, with what `load_policy` needs to build the network again."""
        tensors = {f"{self.part}.{name}": tensor for name, tensor in self._network.state_dict().items()}
        write_weights(path, tensors, {"kind": self.kind, **self.settings})

    def weights(self) -> dict[str, Tensor]:
        """Those of its network, by name."""
        return dict(self._network.state_dict())

    @abstractmethod
    def state(self) -> Tree:
        """The random stream; the weights are in `save`."""

    @abstractmethod
    def load(self, state: Tree) -> None:
        """Continue a random stream."""

    def _given(self, observations: ArrayLike) -> torch.Tensor:
        return torch.as_tensor(np.asarray(observations, dtype=np.float32), device=self.device)


class QPolicy(Policy):
    """The action of the highest value; not deterministic, with the probability `epsilon` of its settings a uniform draw."""

    kind = "dddqn"
    part = "q"

    @staticmethod
    def build(settings: Mapping[str, Any]) -> nn.Module:
        """Settings: `observation_size`, `num_actions`, `hidden`, `epsilon`."""
        check_share("epsilon", settings["epsilon"])
        check_count("num_actions", settings["num_actions"])
        return DuelingQ(settings["observation_size"], settings["num_actions"], settings["hidden"])

    def _seed(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    @torch.inference_mode()
    def act_batch(self, observations: ArrayLike, *, deterministic: bool = True) -> NDArray[np.int64]:
        """Actions of shape `(batch,)`."""
        actions: NDArray[np.int64] = self._network(self._given(observations)).argmax(dim=1).cpu().numpy()
        if not deterministic:
            explores = self._rng.random(len(actions)) < self.settings["epsilon"]
            actions = np.where(explores, self._rng.integers(self.settings["num_actions"], size=len(actions)), actions)
        return actions

    def state(self) -> Tree:
        """The random stream; the weights are in `save`."""
        return {"rng": rng_state(self._rng)}

    def load(self, state: Tree) -> None:
        """Continue a random stream."""
        try:
            set_rng(self._rng, state["rng"])
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"this is not the state of a policy of kind {self.kind}: {error}.") from error


class GaussianPolicy(Policy):
    """tanh(mean) of the actor's distribution; not deterministic, a sample of it."""

    kind = "sac"
    part = "actor"

    @staticmethod
    def build(settings: Mapping[str, Any]) -> nn.Module:
        """Settings: `observation_size`, `action_size`, `hidden`."""
        return SquashedGaussian(settings["observation_size"], settings["action_size"], settings["hidden"])

    def _seed(self, seed: int) -> None:
        self._rng = torch.Generator(device=self.device).manual_seed(seed)

    @torch.inference_mode()
    def act_batch(self, observations: ArrayLike, *, deterministic: bool = True) -> NDArray[np.float32]:
        """Actions of shape `(batch, action_size)` in (−1, 1)."""
        mean, std = self._network(self._given(observations))
        if not deterministic:
            mean = mean + std * torch.randn(mean.shape, generator=self._rng, device=self.device)
        actions: NDArray[np.float32] = torch.tanh(mean).cpu().numpy()
        return actions

    def state(self) -> Tree:
        """The random stream; the weights are in `save`."""
        return {"rng": self._rng.get_state().cpu().numpy()}

    def load(self, state: Tree) -> None:
        """Continue a random stream."""
        try:
            self._rng.set_state(torch.as_tensor(state["rng"], dtype=torch.uint8).cpu())
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise StateError(f"this is not the state of a policy of kind {self.kind}: {error}.") from error


_KINDS: dict[str, type[Policy]] = {each.kind: each for each in (QPolicy, GaussianPolicy)}
_SB3 = "sb3"


def _policy_of(kind: Any) -> type[Policy] | None:
    if kind == _SB3:
        from cursus.agents.sb3 import SB3Policy  # needs a library that others do not

        return SB3Policy
    return _KINDS.get(kind) if isinstance(kind, str) else None


def load_policy(path: str | Path, device: str = "cpu", seed: int = 0) -> Policy:
    """The policy in a file that `Policy.save` or `Agent.save_weights` has written.

    Args:
        path: the file.
        device: of PyTorch, such as `"cpu"` or `"cuda"` (default `"cpu"`).
        seed: of the random stream for acts that are not deterministic (default 0).
    """
    tensors, settings = read_weights(path)
    kind = settings.pop("kind", None)
    policy = _policy_of(kind)
    if policy is None:
        known = ", ".join(sorted([*_KINDS, _SB3]))
        raise CheckpointError(
            f"{path} holds weights of the kind {kind!r}. Known: {known}. Read it with the version that wrote it."
        )
    try:
        with torch.device("meta"):  # no memory before the shapes are known to be those of the file
            network = policy.build(settings)
        network.load_state_dict(part_of(tensors, policy.part), assign=True)
    except (AssertionError, KeyError, RuntimeError, TypeError, ValueError, IndexError) as error:
        raise CheckpointError(f"{path} does not hold what it says, a policy of kind {kind}: {error}. Save it again.") from error
    return policy(network, settings, device, seed)


def write_weights(path: str | Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> None:
    """Write tensors, with metadata of JSON values on what they are, whole or not at all."""
    plain = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    text = json.dumps({**metadata, "crc32": _checksum(plain, metadata)}, sort_keys=True)
    write_atomically(Path(path), to_safetensors(plain, metadata={_METADATA_KEY: text}))


def read_weights(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and the metadata of such a file; a `CheckpointError` if a single bit of it is wrong."""
    try:
        data = read_regular(Path(path), _MOST_BYTES, _check_head)
    except OSError as error:
        raise CheckpointError(f"weights {path} cannot be read: {error.strerror}. Check the path.") from error
    try:
        tensors = read_safetensors(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        metadata = json.loads(header.get("__metadata__", {}).get(_METADATA_KEY, "null"))
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{path} is no safetensors file, or damaged: {error}. {_ADVICE}") from error
    if not isinstance(metadata, dict) or "crc32" not in metadata:
        raise CheckpointError(f"{path} was not written by Cursus: it does not say which network it is of. {_ADVICE}")
    if metadata.pop("crc32") != _checksum(tensors, metadata):
        raise CheckpointError(f"{path} is damaged: its checksum does not fit. {_ADVICE}")
    return tensors, metadata


def _check_head(file: BinaryIO, size: int) -> None:
    """Refuse what is no safetensors file before it is read as a whole."""
    length = int.from_bytes(file.read(8), "little")
    if not 0 < length <= size - 8 or file.read(1) != b"{":
        raise OSError(22, "it is no safetensors file, or damaged")


def part_of(tensors: Mapping[str, Tensor], part: str) -> dict[str, Tensor]:
    """The tensors of one network, under its own names."""
    return {name.removeprefix(f"{part}."): tensor for name, tensor in tensors.items() if name.startswith(f"{part}.")}


def _checksum(tensors: Mapping[str, Tensor], metadata: Mapping[str, Any]) -> int:
    """Over names, shapes and kinds too, so that nothing but the tensors that were saved passes."""
    total = crc32(json.dumps(metadata, sort_keys=True).encode())
    for name in sorted(tensors):
        values = tensors[name].numpy()
        total = crc32(values.tobytes(), crc32(f"{name} {values.dtype} {values.shape}".encode(), total))
    return total
