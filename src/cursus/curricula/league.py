"""Self-play league: an archive of the learner's earlier selves, ratings, and whom of them to meet next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np

from cursus.curricula.base import Curriculum, take
from cursus.curricula.standings import Standings
from cursus.errors import SettingsError, StateError
from cursus.randomness import TicketStream
from cursus.settings import check_count, check_kind, check_positive
from cursus.tasks import TaskSpace
from cursus.types import BoolArray, Decision, Draw, Episodes, FloatArray, IntArray, RolloutScores, TaskSample, Tree

ARCHIVE, LATEST = "archive", "latest"
STRATEGIES = ("pfsp", "skill", "random", "baseline", "newest")
_SHARES = {"pfsp": 0.5, "random": 0.3, "baseline": 0.2}


Strategies: TypeAlias = tuple[tuple[str, float], ...]
"""Names, and where the share of each ends on the way from 0 to 1."""


Thin: TypeAlias = Literal["beaten", "time"]
"""Who makes room in a full archive."""


class Facts(NamedTuple):
    """What a task says: whom it names, how members are drawn for it, whether it meets an earlier self, whether it is rated."""

    opponent: str | None
    strategies: Strategies
    meets_self: bool
    rated: bool


class LeagueTasks(TaskSpace):
    """The tasks of another space; where one of them names the archive, one for each member who may be met there."""

    def __init__(self, tasks: TaskSpace, members: Sequence[str], key: str = "opponent") -> None:
        self.base, self.members, self.key = tasks, list(members), key
        self.width = len(self.members) + 1
        super().__init__(tasks.size * self.width)

    def split(self, task: int) -> tuple[int, int | None]:
        """The task behind it, and the index of the member who is met, if one is."""
        base, member = divmod(task, self.width)
        return base, member - 1 if member else None

    def label(self, task: int) -> str:
        """That of the task behind it: who exactly is met makes no group of its own."""
        return self.base.label(task // self.width)

    def name(self, task: int) -> str:
        """That of the task behind it, and who is met."""
        base, member = self.split(task)
        return self.base.name(base) if member is None else f"{self.base.name(base)} against {self.members[member]}"

    def params(self, task: int) -> Any:
        """Those of the task behind it, with the member as the opponent."""
        base, member = self.split(task)
        params = self.base.params(base)
        return params if member is None else {**params, self.key: self.members[member]}

    def settings(self) -> Mapping[str, Any]:
        """`tasks`, `members` and `key`."""
        return {"tasks": self.base, "members": self.members, "key": self.key}

    def __repr__(self) -> str:
        return f"LeagueTasks({self.base!r}, {len(self.members)} members)"


class League(Curriculum):
    """Any curriculum, with an archive of the learner's earlier selves to play against.

    The learner is to be archived when the first task is done whose opponent is `"archive"` or `"latest"`, and again after
    every `every` such episodes: what is practised before does not fill the archive. A decision of the kind `snapshot` names
    the slot, and who was let go for it; whoever trains puts a copy of the learner there.

    Where the curriculum draws a task whose opponent is `"archive"`, a member is drawn for it: `archive/0`, `archive/1`, …,
    or one of the baselines. How, is drawn from `shares`, or said by the task itself, as in `"archive:skill"`:

    - `pfsp`: prioritized fictitious self-play, in proportion to w·(1 − w), where w is the learner's win rate against it;
    - `skill`: uniformly among those whose rating is within `skill_range` of the learner's, or of all if there is none;
    - `random`: uniformly among the archived; `newest`: the one archived last; `baseline`: uniformly among the baselines.

    As long as nobody is archived, a baseline is met. When all slots are taken, one makes room, by the rule of `thin`: with
    `beaten` the member whom the learner beats most surely, but never the newest; with `time` the one whose going leaves
    the smallest gap between its neighbours in time, but never the oldest, so that members stay spread over the whole run.

    Ratings are Elo's, read from the scores of episodes (1 won, 0.5 drawn, 0 lost). A member begins with the learner's
    rating of that moment. Games against a player who is named in `baselines` or `anchors` count wherever they are played.

    Args:
        curriculum: draws the tasks; some of their params name the archive as the opponent.
        baselines: names of players who can always be met, at least one.
        anchors: fixed ratings of players by name, so that the scale keeps its meaning while the learner moves (default:
            none).
        slots: number of earlier selves that are kept, at least 1 (default 16).
        every: episodes against earlier selves between two snapshots, at least 1 (default 500).
        thin: who makes room when all slots are taken, `"beaten"` or `"time"` (default `"beaten"`).
        shares: how often each strategy is used, by name; they need not add up to 1 (default: half `pfsp`, 0.3 `random`,
            0.2 `baseline`).
        skill_range: points of rating within which `skill` looks, above 0 (default 100).
        rated: what the params of a task must hold for its games to count in ratings (default: nothing, all count).
        key: where params name the opponent (default `"opponent"`).

    >>> from cursus import Uniform
    >>> from cursus.tasks import Named
    >>> league = League(Uniform(Named({"self-play": {"opponent": "archive"}})), baselines=["scripted"])
    >>> league.ratings()
    {'scripted': 1000.0}
    """

    def __init__(
        self,
        curriculum: Curriculum,
        *,
        baselines: Sequence[str],
        anchors: Mapping[str, float] | None = None,
        slots: int = 16,
        every: int = 500,
        thin: Thin = "beaten",
        shares: Mapping[str, float] | None = None,
        skill_range: float = 100.0,
        rated: Mapping[str, Any] | None = None,
        key: str = "opponent",
    ) -> None:
        check_kind("curriculum", curriculum, Curriculum, "Uniform(Named({'self-play': {'opponent': 'archive'}}))")
        check_count("slots", slots)
        check_count("every", every)
        if thin not in get_args(Thin):
            raise SettingsError(f"thin={thin!r} is not known. Allowed: {', '.join(get_args(Thin))}.")
        check_positive("skill_range", skill_range)
        self._curriculum = curriculum
        self._shares = dict(_SHARES if shares is None else shares)
        self._strategies = check_shares(self._shares)
        self._baselines = list(baselines)
        if isinstance(baselines, str) or not all(isinstance(name, str) for name in self._baselines):
            raise SettingsError(f"baselines={baselines!r:.80} must be a list of names, such as ['weak', 'strong'].")
        if not self._baselines:
            raise SettingsError("baselines=[] leaves nobody to play against before the first snapshot.")
        self._members = [*self._baselines, *(f"{ARCHIVE}/{slot}" for slot in range(slots))]
        self._space = LeagueTasks(curriculum.tasks, self._members, key)
        super().__init__(self._space)
        self._anchors = {} if anchors is None else dict(anchors)
        self._slots, self._every, self._thin, self._skill_range = slots, every, thin, skill_range
        self._rated = {} if rated is None else dict(rated)
        self._facts = lru_cache(maxsize=4096)(self._look_up)
        self._episodes = 0
        self._taken = 0
        self._players = [*self._members, *(name for name in self._anchors if name not in self._baselines)]
        self._scripted = {name: self._players.index(name) for name in [*self._baselines, *self._anchors]}
        self._standings = Standings(self._players, self._anchors)
        self._numbers = np.full(len(self._players), -1, dtype=np.int64)  # of the snapshot in each slot

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in super().__getstate__().items() if key != "_facts"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self._facts = lru_cache(maxsize=4096)(self._look_up)

    def parts(self) -> tuple[Curriculum, ...]:
        """The curriculum."""
        return (self._curriculum,)

    @property
    def score_bounds(self) -> tuple[float, float]:
        """Scores are results of games."""
        return (0.0, 1.0)

    @property
    def needs(self) -> frozenset[str]:
        """What the curriculum needs, and scores for the ratings."""
        return super().needs | {"score"}

    @property
    def archive(self) -> list[str]:
        """The names of all slots."""
        return self._members[len(self._baselines) :]

    @property
    def rating(self) -> float:
        """The learner's."""
        return self._standings.rating

    def ratings(self) -> dict[str, float]:
        """Those of everybody who is met."""
        return {self._players[player]: float(self._standings.ratings[player]) for player in self._present().tolist()}

    @property
    def completed(self) -> bool | None:
        """Whether the curriculum is."""
        return self._curriculum.completed

    # ---- drawing

    def sample(self, rng: TicketStream) -> Draw:
        """Let the curriculum draw, then draw members where it named the archive."""
        how, who = (column.tolist() for column in rng.columns(2))
        draw = self._curriculum.sample(rng)
        tasks = draw.tasks * self._space.width
        for row in range(len(tasks)):
            strategies = self._facts(int(draw.tasks[row])).strategies
            if strategies:
                tasks[row] += 1 + self._meet(strategies, how[row], who[row])
        return Draw(tasks, draw.tags)

    def stages_of(self, tags: IntArray) -> list[str] | None:
        """Those of the curriculum, by these `tags`."""
        return self._curriculum.stages_of(tags)

    def learns(self, tags: IntArray) -> BoolArray | None:
        """As the curriculum says."""
        return self._curriculum.learns(tags)

    def update_scores(self, scores: RolloutScores) -> list[Decision]:
        """For the curriculum, whose tasks stand for games against several."""
        return self._curriculum.update_scores(replace(scores, task=scores.task // self._space.width))

    def _meet(self, strategies: Strategies, how: float, who: float) -> int:
        """The index of a member."""
        odds = self._odds(next((name for name, bound in strategies if how < bound), strategies[-1][0]))
        return min(int(np.searchsorted(np.cumsum(odds), who * odds.sum(), side="right")), len(odds) - 1)

    def _odds(self, strategy: str) -> FloatArray:
        """How likely each member is under a strategy, up to a factor."""
        archived = self._numbers >= 0
        odds = np.zeros(len(self._players))
        if strategy == "baseline" or not archived.any():
            odds[: len(self._baselines)] = 1.0
        elif strategy == "newest":
            odds[int(np.argmax(self._numbers))] = 1.0
        elif strategy == "pfsp":
            odds[archived] = (self._standings.win_rates * (1 - self._standings.win_rates))[archived]
        elif strategy == "skill":
            odds[archived & (np.abs(self._standings.ratings - self.rating) <= self._skill_range)] = 1.0
        if not odds.any():
            odds[archived] = 1.0
        return odds

    def draw_state(self) -> Any:
        """What drawing changes in the curriculum."""
        return self._curriculum.draw_state()

    def restore_draws(self, before: Any) -> None:
        """Undo it."""
        self._curriculum.restore_draws(before)

    # ---- learning

    def update(self, episodes: Episodes) -> list[Decision]:
        """Rate the games, let the curriculum learn from its tasks, and archive the learner when it is time."""
        decisions: list[Decision] = []
        bases = (episodes.task // self._space.width).tolist()
        meetings = np.flatnonzero([self._facts(base).meets_self for base in bases])
        start = 0
        while start < len(episodes):
            coming = meetings[meetings >= start]
            left = self._until_snapshot()
            stop = int(coming[left - 1]) + 1 if left <= len(coming) else len(episodes)
            run = episodes[start:stop]
            for task, score in zip(run.task.tolist(), run.score.tolist(), strict=True):
                self._count_game(task, score)
            decisions += self._curriculum.update(replace(run, task=run.task // self._space.width))
            self._episodes += min(left, len(coming))
            if left <= len(coming):
                decisions.append(self._archive(int(run.ticket[-1])))
            start = stop
        return decisions

    def _until_snapshot(self) -> int:
        """Episodes against earlier selves until the next one; the first of all brings the first snapshot."""
        return self._every - (self._episodes - 1) % self._every if self._episodes else 1

    def _count_game(self, task: int, score: float) -> None:
        base, member = self._space.split(task)
        facts = self._facts(base)
        player = self._scripted.get(facts.opponent or "") if member is None else member
        if player is not None:
            self._standings.count(player, score, rated=facts.rated)

    def _archive(self, ticket: int) -> Decision:
        first, number = len(self._baselines), self._taken
        taken = self._numbers[first : first + self._slots]
        left, lost = None, ""
        if (taken < 0).any():
            slot = int(np.argmax(taken < 0))
        else:
            slot, why = self._let_go(taken)
            left = int(taken[slot])
            lost = f" in place of snapshot {left}, {why}"
        member = first + slot
        gone = None if left is None else {"snapshot": left, **self._standings.row(member), "why": why}
        self._numbers[member] = number
        self._standings.renew(member)
        self._taken += 1
        text = f"the learner is archived as snapshot {number} in slot {slot}{lost}; rating {self.rating:.0f}"
        evidence: dict[str, Any] = {"slot": slot, "number": number, "left": left, "let_go": gone}
        evidence |= {"rating": round(self.rating, 3), "episodes": self._episodes}
        return Decision("snapshot", ticket, text, evidence)

    def _let_go(self, taken: IntArray) -> tuple[int, str]:
        """The slot that is freed, and why."""
        if self._thin == "time" and len(taken) > 1:
            times = [*np.sort(taken).tolist(), self._taken]
            gaps = [times[index + 1] - times[index - 1] for index in range(1, len(taken))]
            before, chosen, after = times[int(np.argmin(gaps)) :][:3]
            return int(np.argmax(taken == chosen)), f"the least missed between {before} and {after}"
        beaten = self._standings.win_rates[len(self._baselines) :][: self._slots].copy()
        if len(beaten) > 1:
            beaten[int(np.argmax(taken))] = -1.0
        slot = int(np.argmax(beaten))
        return slot, f"beaten at {self._standings.win_rates[len(self._baselines) + slot]:.0%}"

    def _look_up(self, base: int) -> Facts:
        params = self._space.base.params(base)
        if not isinstance(params, Mapping):
            return Facts(None, (), False, False)
        opponent = params.get(self._space.key)
        rated = all(params.get(name, value) == value for name, value in self._rated.items())
        strategies: Strategies = tuple(self._strategies) if opponent == ARCHIVE else ()
        if isinstance(opponent, str) and opponent.startswith(f"{ARCHIVE}:"):
            strategies = tuple(check_shares({opponent.removeprefix(f"{ARCHIVE}:"): 1.0}))
        name = opponent if isinstance(opponent, str) else None
        return Facts(name, strategies, bool(strategies) or name == LATEST, rated)

    def _present(self) -> IntArray:
        """Scripted players, and members of slots that are taken."""
        scripted = np.isin(np.arange(len(self._players)), list(self._scripted.values()))
        return np.flatnonzero((self._numbers >= 0) | scripted)

    # ---- telling

    def weights(self) -> FloatArray:
        """The weights of the curriculum, shared among members where it names the archive."""
        weights = self._blank_weights().reshape(-1, self._space.width)
        for base, share in enumerate(self._curriculum.weights().tolist()):
            strategies = self._facts(base).strategies if share else ()
            if strategies:
                weights[base, 1:] = share * self._member_shares(strategies)[: len(self._members)]
            else:
                weights[base, 0] = share
        return weights.reshape(-1)

    def _member_shares(self, strategies: Strategies) -> FloatArray:
        shares = np.zeros(len(self._players))
        below = 0.0
        for strategy, bound in strategies:
            odds = self._odds(strategy)
            shares += (bound - below) * odds / odds.sum()
            below = bound
        return shares

    def progress_of(self, tasks: IntArray) -> FloatArray | None:
        """As the curriculum measures it."""
        return self._curriculum.progress_of(tasks // self._space.width)

    def task_sample(self, most: int = 4096) -> TaskSample | None:
        """What the curriculum knows."""
        found = self._curriculum.task_sample(most)
        return None if found is None else replace(found, tasks=found.tasks * self._space.width)

    def explain_task(self, task: int) -> str:
        """In the words of the curriculum."""
        return self._curriculum.explain_task(task // self._space.width)

    def explain(self) -> str:
        """The curriculum, the archive and the ratings."""
        missing = self._until_snapshot()
        text = f"League: {self._archived()} of {self._slots} slots taken, the next snapshot after {missing:,} "
        text += f"episode{'s' * (missing != 1)} against earlier selves; rating {self.rating:.0f}"
        anchors = ", ".join(f"{name} {value:.0f}" for name, value in self._anchors.items())
        return f"{self._curriculum.explain()}\n{text}" + (f" (anchored: {anchors})." if anchors else ".")

    def status(self) -> dict[str, list[dict[str, Any]]]:
        """The tables of the curriculum, and a row for everybody who is met; `win_rate` is of the latest games."""
        rows = [
            {
                "member": self._players[player],
                "snapshot": None if self._numbers[player] < 0 else int(self._numbers[player]),
                **self._standings.row(player),
            }
            for player in self._present().tolist()
        ]
        return {**self._curriculum.status(), "league": rows}

    def metrics(self) -> dict[str, float]:
        """The learner's rating, how full the archive is, and how the learner stands with each scripted player."""
        metrics = {
            **super().metrics(),
            "progress/rating": self.rating,
            "league/archived": float(self._archived()),
            "league/snapshots": float(self._taken),
        }
        for name, player in self._scripted.items():
            metrics[f"league/rating/{name}"] = float(self._standings.ratings[player])
            metrics[f"league/win_rate/{name}"] = float(self._standings.win_rates[player])
        return metrics

    def _archived(self) -> int:
        return int(np.count_nonzero(self._numbers >= 0))

    def state(self) -> Tree:
        """The archive, the ratings, and the state of the curriculum."""
        return {
            "curriculum": self._curriculum.state(),
            "episodes": self._episodes,
            "taken": self._taken,
            "standings": self._standings.state(),
            "numbers": self._numbers.copy(),
        }

    def load(self, state: Tree) -> None:
        """Continue from there."""
        curriculum, episodes, taken, standings, numbers = take(state, "curriculum", "episodes", "taken", "standings", "numbers")
        if np.shape(numbers) != (len(self._players),):
            raise StateError(f"this state is of a league of another size than {len(self._players)} players.")
        self._standings.load(standings)
        self._curriculum.load(curriculum)
        self._episodes, self._taken, self._numbers = int(episodes), int(taken), np.array(numbers, dtype=np.int64)

    def settings(self) -> Mapping[str, Any]:
        """Everything that the constructor takes."""
        return {
            "curriculum": self._curriculum,
            "baselines": self._baselines,
            "anchors": self._anchors,
            "slots": self._slots,
            "every": self._every,
            "thin": self._thin,
            "shares": self._shares,
            "skill_range": self._skill_range,
            "rated": self._rated,
            "key": self._space.key,
        }


def check_shares(shares: Mapping[str, float]) -> list[tuple[str, float]]:
    """Strategies, and where the share of each ends on the way from 0 to 1."""
    for name, share in shares.items():
        if name not in STRATEGIES:
            raise SettingsError(f"there is no strategy {name!r}. There are: {', '.join(STRATEGIES)}.")
        check_positive(f"the share of {name!r}", share, zero=True)
    total = sum(shares.values())
    if not total > 0:
        raise SettingsError(f"shares={dict(shares)} add up to nothing.")
    bounds = np.cumsum(list(shares.values())) / total
    return [(name, float(bound)) for name, bound in zip(shares, bounds, strict=True)]
