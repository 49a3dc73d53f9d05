"""Teacher by a mixture of Gaussians: the part that ALP-GMM and Covar-GMM share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cursus.curricula.base import take
from cursus.curricula.continuous._box_teacher import BoxTeacher, Signal, choose, proportional, rounded, standard_normals
from cursus.curricula.continuous._mixture import GaussianMixture, fit_best
from cursus.errors import SettingsError, StateError
from cursus.randomness import TicketStream, generator
from cursus.settings import check_count, check_share
from cursus.tasks import TaskSpaceLike
from cursus.types import Decision, Draw, FloatArray, Tree


class MixtureTeacher(BoxTeacher):
    """Every `fit_rate` results, mixtures of Gaussians are fitted to the newest of them, and the best by AIC is drawn from.

    Rows that are fitted begin with the point. A component is drawn by its value, then a point from its Gaussian, moved into
    the box; a share of the draws is uniform, and all are before the first fit.

    Args:
        tasks: a `Box`.
        fit_rate: results between fits, and in a fit.
        random_share: share of uniform draws.
        components: numbers of Gaussians that are tried, the fewest and the most.
        signal: `"score"` or `"return"`.
        seed: of the starts of fits.
    """

    def __init__(
        self,
        tasks: TaskSpaceLike,
        *,
        fit_rate: int,
        random_share: float,
        components: Sequence[int],
        signal: Signal,
        seed: int,
    ) -> None:
        super().__init__(tasks, signal=signal, seed=seed)
        check_share("random_share", random_share)
        if len(components) != 2 or not 1 <= components[0] <= components[1]:
            raise SettingsError(f"components={components!r} must be the fewest and the most Gaussians, such as [2, 10].")
        check_count("fit_rate", fit_rate, low=int(components[1]))
        self._rate, self._random, self._components = int(fit_rate), float(random_share), [int(each) for each in components]
        self._rows: list[FloatArray] = []  # since the last fit
        self.mixture: GaussianMixture | None = None
        """The mixture that is drawn from; None before the first fit."""

    @property
    @abstractmethod
    def _extra(self) -> int:
        """How many numbers follow the point in a row."""

    @abstractmethod
    def values(self) -> FloatArray:
        """What each component promises, at least 0; they are drawn in proportion."""

    def _enter(self, ticket: int, row: FloatArray) -> list[Decision]:
        """Add a row, and fit when there are enough."""
        self._rows.append(row)
        if len(self._rows) < self._rate:
            return []
        fewest, most = self._components
        self.mixture = fit_best(
            np.array(self._rows), range(fewest, most + 1), lambda size: generator(self._seed, self._results, size)
        )
        self._rows = []
        best = int(self.values().argmax())
        middle = rounded(self.mixture.means[best, : self.dims])
        count = len(self.mixture.weights)
        text = f"{count} Gaussians fit the last {self._rate} results best; the most is promised around {middle}"
        return [Decision("fit", ticket, text, {"values": rounded(self.values()), "middle": middle, "results": self._results})]

    def sample(self, rng: TicketStream) -> Draw:
        """From a Gaussian by its value, or uniformly."""
        uniformly, pick = rng.uniform() < self._random, rng.uniform()
        points = np.stack([rng.uniform() for _ in range(self.dims)], axis=1)
        if self.mixture is None:
            return self._draw(points)
        which, normals = choose(proportional(self.values()), pick), standard_normals(rng, self.dims)
        dims = slice(self.dims)
        roots = np.linalg.cholesky(self.mixture.covariances[:, dims, dims])
        drawn = self.mixture.means[which, dims] + (roots[which] * normals[:, None]).sum(axis=2)
        return self._draw(np.where(uniformly[:, None], points, drawn))

    # ---- telling

    def explain(self) -> str:
        """Which Gaussians are drawn from."""
        left = self._rate - len(self._rows)
        head = f"{type(self).__name__}: {self._results:,} results; {left} more until the next fit"
        if self.mixture is None:
            return f"{head}. All draws are uniform until then."
        lines = [f"{head}; {self._random:.0%} of the draws are uniform, the others from {len(self.values())} Gaussians:"]
        return "\n".join([*lines, *(f"  around {row['middle']}: {row['share']:.0%} of them" for row in self._table())])

    def status(self) -> dict[str, list[dict[str, Any]]]:
        """The Gaussians."""
        return {"gaussians": self._table()}

    def _table(self) -> list[dict[str, Any]]:
        if self.mixture is None:
            return []
        shares, values = proportional(self.values()), self.values()
        points = self._draw(self.mixture.means[:, : self.dims]).tasks
        rows = [
            {"middle": self.tasks.name(task), "value": float(value), "share": float(share)}
            for task, value, share in zip(points.tolist(), values, shares, strict=True)
        ]
        return sorted(rows, key=lambda row: -float(str(row["share"])))

    # ---- saving

    def state(self) -> Tree:
        """What came since the last fit, and its mixture."""
        rows = np.array(self._rows).reshape(-1, self.dims + self._extra)
        return {"results": self._results, "rows": rows, "mixture": None if self.mixture is None else self.mixture.state()}

    def load(self, state: Tree) -> None:
        """Continue with the same mixture."""
        results, rows, mixture = take(state, "results", "rows", "mixture")
        if np.ndim(rows) != 2 or np.shape(rows)[1] != self.dims + self._extra or len(rows) >= self._rate:
            raise StateError(
                f"this state is of another box, or of another fit_rate: it has rows of the shape {np.shape(rows)}."
            )
        self._results, self._rows = int(results), list(np.array(rows))
        self.mixture = None
        if mixture is not None:
            self.mixture = GaussianMixture(*(np.array(each) for each in take(mixture, "weights", "means", "covariances")))

    def settings(self) -> Mapping[str, Any]:
        """The keyword arguments."""
        return {
            "tasks": self.tasks,
            "fit_rate": self._rate,
            "random_share": self._random,
            "components": self._components,
            "signal": self._signal,
            "seed": self._seed,
        }
