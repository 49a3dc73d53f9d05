"""Standings of a self-play league: the learner's rating, and ratings, games and win rates of those whom it meets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cursus.curricula.base import take
from cursus.errors import StateError
from cursus.types import Tree

_MEMORY = 0.05  # weight of a new result in the win rate against a player
_LEARNER_GAIN, _PLAYER_GAIN = 16.0, 32.0  # points at stake in a game; those of a player shrink with its games
_SCALE = 400.0  # points that make odds of ten to one
_FIRST_RATING = 1000.0  # where nobody is anchored


class Standings:
    """How a learner stands with each of some players, by Elo's ratings and by the latest games.

    Args:
        players: their names.
        anchors: fixed ratings of some of them, by name; the learner begins at their mean.

    >>> standings = Standings(["weak", "archive/0"], {"weak": 1000.0})
    >>> standings.count(0, 1.0, rated=True)
    >>> standings.rating, int(standings.wins[0])
    (1008.0, 1)
    """

    def __init__(self, players: Sequence[str], anchors: Mapping[str, float]) -> None:
        self.players, self._anchors = list(players), dict(anchors)
        self.rating = float(np.mean(list(anchors.values()))) if anchors else _FIRST_RATING
        """The learner's."""
        self.ratings = np.array([anchors.get(name, self.rating) for name in self.players], dtype=np.float64)
        """Those of the players."""
        self.win_rates = np.full(len(self.players), 0.5)
        """The average result of the learner in the latest games with each player."""
        self.games, self.wins = np.zeros((2, len(self.players)), dtype=np.int64)
        """How many games the learner played with each, and how many it won."""

    def count(self, player: int, score: float, *, rated: bool) -> None:
        """Take in a game.

        Args:
            player: index of whom the learner met.
            score: 1 won, 0.5 drawn, 0 lost.
            rated: whether it counts in ratings.
        """
        self.win_rates[player] += _MEMORY * (score - self.win_rates[player])
        self.games[player] += 1
        self.wins[player] += score == 1.0
        if not rated:
            return
        surprise = score - 1.0 / (1.0 + 10.0 ** ((float(self.ratings[player]) - self.rating) / _SCALE))
        self.rating += _LEARNER_GAIN * surprise
        if self.players[player] not in self._anchors:
            self.ratings[player] -= _PLAYER_GAIN / (1.0 + self.games[player] / 10.0) * surprise

    def renew(self, player: int) -> None:
        """Let the `player` with this index be the learner of this moment, who has played no game yet."""
        self.ratings[player], self.win_rates[player] = self.rating, 0.5
        self.games[player] = self.wins[player] = 0

    def row(self, player: int) -> dict[str, Any]:
        """What a table says of the `player` with this index."""
        return {
            "rating": round(float(self.ratings[player]), 1),
            "win_rate": round(float(self.win_rates[player]), 4),
            "games": int(self.games[player]),
            "wins": int(self.wins[player]),
        }

    def state(self) -> Tree:
        """All numbers."""
        return {
            "rating": self.rating,
            "ratings": self.ratings.copy(),
            "win_rates": self.win_rates.copy(),
            "games": self.games.copy(),
            "wins": self.wins.copy(),
        }

    def load(self, state: Tree) -> None:
        """Continue from there."""
        rating, *columns = take(state, "rating", "ratings", "win_rates", "games", "wins")
        if any(np.shape(column) != (len(self.players),) for column in columns):
            raise StateError(f"this state is of a league of another size than {len(self.players)} players.")
        self.rating = float(rating)
        self.ratings, self.win_rates = (np.array(column, dtype=np.float64) for column in columns[:2])
        self.games, self.wins = (np.array(column, dtype=np.int64) for column in columns[2:])
