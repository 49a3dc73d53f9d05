"""Run against run: one evaluated against another, and tournaments with ratings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cursus.agents import DDDQN, SAC, Policy
from cursus.cli import main
from cursus.errors import ConfigError, SettingsError
from cursus.training import play_tournament, train
from cursus.training.plan import read_plan
from cursus.training.run import _Job
from games import RPS

HOCKEY = "cursus/Hockey-v0"


def run_of(folder: Path, policy: Policy, env: str = HOCKEY, **environment: Any) -> Path:
    """The folder of a training that is over: how it was configured, and the weights of `policy`."""
    spec = {"environment": {"id": env, **environment}, "agent": {"type": policy.kind.upper()}, "training": {"steps": 1}}
    plan, typed = read_plan(spec)
    (folder / "weights").mkdir(parents=True)
    _Job(plan, typed, 1, "cpu", folder, is_resumed=False).write_record()
    policy.save(folder / "weights" / "best.safetensors")
    return folder


def sac(seed: int, sees: int = 18, does: int = 4) -> Policy:
    return SAC(sees, does, num_envs=1, hidden=(16,), seed=seed).freeze()


def always(action: int) -> Policy:
    """Does the same in rock paper scissors, whatever it sees."""
    policy = DDDQN(4, 3, num_envs=1, hidden=(4,)).freeze()
    for weights in policy.weights().values():
        weights.zero_()
    policy.weights()["advantage.bias"][action] = 1.0
    return policy


@pytest.fixture
def rps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    monkeypatch.chdir(tmp_path)
    return {name: run_of(Path(name), always(action), RPS) for action, name in enumerate(("rocky", "paper", "scissors"))}


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    main([*arguments, "--json"])
    return json.loads(capsys.readouterr().out)


def test_one_run_of_hockey_is_evaluated_against_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    phases = [{"name": "games", "opponent": "weak"}]
    for name, seed in (("one", 1), ("two", 2)):
        spec = {"environment": {"id": HOCKEY}, "agent": {"type": "SAC", "hidden": [16]}, "phases": phases, "seed": seed}
        spec |= {"training": {"steps": 100}, "evaluation": {"every": 0, "games": 1, "background": False}}
        train(spec, num_envs=2, num_workers=0, run=tmp_path / name)
    name = f"checkpoint:{tmp_path / 'two'}"
    data = told(capsys, "evaluate", str(tmp_path / "one"), "--opponent", name, "--games", "4")
    assert data[f"evaluation/{name}/games"] == 4
    rates = [data[f"evaluation/{name}/{rate}_rate"] for rate in ("success", "draw", "loss")]
    assert sum(rates) == pytest.approx(1.0)


def test_everybody_meets_everybody_and_results_are_ratings(rps: dict[str, Path]) -> None:
    found = play_tournament(list(rps.values()), games=10, trust=True)
    results = {(match.one, match.two): (match.wins, match.draws, match.losses) for match in found.matches}
    assert len(results) == 3 + 3 * 3
    assert results["rocky", "paper"] == (0, 0, 10)
    assert results["rocky", "scissors"] == (10, 0, 0)
    assert results["paper", "scissors"] == (0, 0, 10)
    assert results["rocky", "rock"] == (0, 10, 0)
    assert results["paper", "rock"] == (10, 0, 0)
    assert results["paper", "copycat"] == (10, 0, 0), "the first round decides"
    ratings = {rating.name: rating for rating in found.ratings}
    assert [rating.rating for rating in found.ratings] == sorted((each.rating for each in found.ratings), reverse=True)
    assert (ratings["random"].rating, ratings["random"].low, ratings["random"].high) == (1000.0, 1000.0, 1000.0)
    assert ratings["random"].is_anchor
    assert ratings["paper"].rating > ratings["rocky"].rating > ratings["rock"].rating
    assert ratings["paper"].low < ratings["paper"].rating < ratings["paper"].high
    assert (ratings["paper"].games, ratings["rock"].games) == (50, 30)


def test_the_same_seed_gives_the_same_tournament(tmp_path: Path) -> None:
    runs = [run_of(tmp_path / name, sac(seed)) for seed, name in enumerate("ab")]
    first = play_tournament(runs, games=4, seed=3)
    assert play_tournament(runs, games=4, seed=3) == first
    assert {rating.name for rating in first.ratings if rating.is_anchor} == {"weak", "strong"}
    assert len(first.matches) == 1 + 2 * 2


def test_each_run_is_player_one_in_half_of_a_match_and_begins_half_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cursus.envs.hockey import HockeyEnv

    begun: list[tuple[str, str]] = []
    reset = HockeyEnv.reset

    def watched(self: HockeyEnv, **given: Any) -> Any:
        result = reset(self, **given)
        begun.append((str(self.task.opponent), str(self.task.starts)))
        return result

    monkeypatch.setattr(HockeyEnv, "reset", watched)
    a, b = (run_of(tmp_path / name, sac(seed)) for seed, name in enumerate("ab"))
    play_tournament([a, b], games=6)
    met = [(name, starts) for name, starts in begun if name.startswith("checkpoint:")]
    assert sum(name == f"checkpoint:{b}" for name, _ in met) == 3, "a is player one"
    a_begins = [starts == "one" if name == f"checkpoint:{b}" else starts == "two" for name, starts in met]
    assert (len(a_begins), sum(a_begins)) == (6, 3)


def test_who_does_not_fit_is_refused_by_name(tmp_path: Path, rps: dict[str, Path]) -> None:
    one, other = run_of(tmp_path / "one", sac(0)), run_of(tmp_path / "other", sac(0, sees=16, does=3))
    with pytest.raises(ConfigError, match=r"other, which is to meet .*one,? is not of this environment"):
        play_tournament([one, other], games=2)
    discrete = run_of(tmp_path / "discrete", DDDQN(18, 8, num_envs=1, hidden=(16,)).freeze())
    with pytest.raises(ConfigError, match=r"discrete, which is to meet .*one"):
        play_tournament([one, discrete], games=2)
    without = run_of(tmp_path / "without", sac(0), settings={"keep_mode": False})
    with pytest.raises(ConfigError, match=r"without plays another game than .*one: .*keep_mode"):
        play_tournament([one, without], games=2)
    with pytest.raises(ConfigError, match=r"paper plays another game than .*one"):
        play_tournament([one, rps["paper"]], games=2, trust=True)
    with pytest.raises(SettingsError, match="twice"):
        play_tournament([one, one], games=2)
    with pytest.raises(SettingsError, match="at least one run"):
        play_tournament([], games=2)
    keys = run_of(tmp_path / "keys", always(0), "cursus/Keys-v0")
    with pytest.raises(ConfigError, match="nobody is played against"):
        play_tournament([keys], games=2)


def test_the_command_prints_tables_or_json(rps: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    main(["tournament", "rocky", "paper", "--games", "4", "--trust"])
    shown = capsys.readouterr().out
    for word in ("rocky", "paper", "copycat", "rating", "fixed", "won", "drawn", "lost"):
        assert word in shown
    data = told(capsys, "tournament", "rocky", "paper", "--games", "4", "--trust")
    assert data["matches"][0] == {"one": "rocky", "two": "paper", "wins": 0, "draws": 0, "losses": 4}
    assert {"name", "rating", "low", "high", "is_anchor", "games"} <= set(data["ratings"][0])


def test_a_run_with_the_name_of_a_scripted_player_is_told_apart(rps: dict[str, Path]) -> None:
    rps["paper"].rename("rock")
    found = play_tournament(["rock", "rocky"], games=2, trust=True)
    assert {"./rock", "rock", "rocky"} <= {rating.name for rating in found.ratings}
    assert [(match.wins, match.losses) for match in found.matches if (match.one, match.two) == ("./rock", "rock")] == [(2, 0)]


def test_a_run_that_names_code_needs_trust(rps: dict[str, Path]) -> None:
    with pytest.raises(ConfigError, match="--trust"):
        play_tournament(list(rps.values()), games=2)
