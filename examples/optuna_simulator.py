"""Optuna over the simulator: settings of a curriculum are tuned on simulated students, and tried on others.

pip install cursus-rl optuna
python optuna_simulator.py --trials 30    # ten seconds
"""

import numpy as np
import optuna
import tyro

import cursus
from cursus.sim import make_world, simulate_curriculum, with_special

WORLDS = {
    "a chain": make_world("chain", 8),
    "a chain, a third impossible": with_special(make_world("chain", 8).graph, impossible=0.33),
    "forgetful": make_world("forgetting", 8),
}
TUNED_ON, TRIED_ON = range(3), range(100, 110)  # seeds of students


def staged(world, threshold=0.7, window=100, confidence=0.98, ratio=None):
    """A staged curriculum with these settings; the defaults are those of the library."""
    mixing = cursus.AdaptiveMixing() if ratio is None else cursus.curricula.FixedMixing(ratio)
    gate = cursus.Wilson(threshold=threshold, window=window, confidence=confidence)
    return cursus.Staged(tasks=world.tasks, gate=gate, mixing=mixing)


def area(settings, seeds, episodes):
    """The mean area under the students' learning curves, over worlds and seeds: 1 would be competent from the start."""
    results = [
        simulate_curriculum(world, staged(world, **settings), episodes=episodes, seed=seed)
        for world in WORLDS.values()
        for seed in seeds
    ]
    return float(np.mean([result.area for result in results]))


def main(trials: int = 30, episodes: int = 3000, seed: int = 1) -> None:
    def objective(trial):
        settings = {
            "threshold": trial.suggest_float("threshold", 0.3, 0.9),
            "window": trial.suggest_int("window", 20, 200, log=True),
            "confidence": trial.suggest_float("confidence", 0.6, 0.99),
            "ratio": trial.suggest_float("ratio", 0.0, 0.5),
        }
        return area(settings, TUNED_ON, episodes)

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    study.optimize(objective, n_trials=trials)
    print("best:", ", ".join(f"{name} {value:.3g}" for name, value in study.best_params.items()))
    print(f"area under the learning curve of {len(TRIED_ON)} other students in each of {len(WORLDS)} worlds:")
    for name, settings in (("defaults", {}), ("tuned", study.best_params)):
        print(f"{name:>9} {area(settings, TRIED_ON, episodes):.3f}")


if __name__ == "__main__":
    tyro.cli(main)
