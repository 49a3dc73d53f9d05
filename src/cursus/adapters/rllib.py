"""RLlib: a callback that shows the curriculum in its results, and saves and restores it together with the algorithm."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from cursus.adapters.ray import RayAddress
from cursus.errors import MissingExtra, SettingsError

try:
    from ray.rllib.callbacks.callbacks import RLlibCallback
except ImportError as missing:
    raise MissingExtra.of(missing, "rllib") from None

CURRICULUM = "curriculum"
"""The key of the curriculum in results and in the state of an algorithm."""


class RLlibCurriculumCallback(RLlibCallback):  # type: ignore[misc, unused-ignore]
    """`config.callbacks(RLlibCurriculumCallback)`, for the API stack with environment runners and learners.

    Results have `result["curriculum"]`: the stage if there are stages, the counts of tickets, and the metrics of
    `CurriculumStatistics` for the iteration. Checkpoints of the algorithm hold a cut of the run that was taken with them;
    whoever restores the algorithm goes back to exactly that cut, and what was recorded after it is set aside. A desk that is
    gone is a `DeskGone` out of `algorithm.train()`, where RLlib itself would go on without samples.

    Args:
        address: of the desk (default None: the address that is found in `env_config`).
    """

    def __init__(self, address: RayAddress | None = None) -> None:
        self._address = address

    def on_algorithm_init(self, *, algorithm: Any, **_: Any) -> None:
        """Find the desk, and join the state of the algorithm."""
        address = self._address = self._address or _address_in(algorithm.config.env_config)
        if address.withholds():
            raise SettingsError(
                "this curriculum plays some episodes to score them alone, and RLlib learns from every episode. Use one that "
                "learns from all, such as PLR without robust=True."
            )
        inner_get, inner_set = algorithm.get_state, algorithm.set_state

        def get_state(
            components: str | Collection[str] | None = None, *, not_components: str | Collection[str] | None = None, **more: Any
        ) -> dict[str, Any]:
            state: dict[str, Any] = inner_get(components, not_components=not_components, **more)
            if (components is None or _names(components)) and not _names(not_components):
                state[CURRICULUM] = address.cut({"training_iteration": algorithm.training_iteration})
            return state

        def set_state(state: dict[str, Any]) -> None:
            inner_set(state)
            if CURRICULUM in state:
                address.go_back(state[CURRICULUM])

        # RLlib has no hook for what else belongs into a checkpoint: all ways to one, Tune's too, lead through these two.
        algorithm.get_state, algorithm.set_state = get_state, set_state

    def on_train_result(self, *, algorithm: Any, result: dict[str, Any], **_: Any) -> None:
        """Put the curriculum into the result; an error if its desk is gone."""
        address = self._address or _address_in(algorithm.config.env_config)
        status, metrics = address.progress()
        found = {"tickets": status["tickets"], "metrics": metrics}
        reached = [row["stage"] for row in status["tables"].get("stages", ()) if row["status"] != "locked"]
        result[CURRICULUM] = {"stage": reached[-1], **found} if reached else found


def _names(components: str | Collection[str] | None) -> bool:
    """Whether the curriculum is one of these components of an algorithm."""
    return components == CURRICULUM if isinstance(components, str) else CURRICULUM in (components or ())


def _address_in(env_config: dict[str, Any]) -> RayAddress:
    found = [value for value in env_config.values() if isinstance(value, RayAddress)]
    if len(found) != 1:
        raise SettingsError(
            f"env_config has {len(found)} addresses of desks. Give it the one of cursus.adapters.ray.start, such as "
            'config.environment("mine", env_config={"curriculum": address}), or the callback: '
            "config.callbacks(functools.partial(RLlibCurriculumCallback, address))."
        )
    return found[0]
