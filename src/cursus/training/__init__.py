"""Training an agent under a curriculum: plans, the loop, callbacks, opponents, evaluation, tournaments, videos."""

from cursus.training.callbacks import Callback, Training
from cursus.training.evaluate import Score, evaluate
from cursus.training.learner import train_agent
from cursus.training.opponents import Opponents
from cursus.training.run import TrainResult, train
from cursus.training.tournament import Match, Rating, Tournament, play_tournament

__all__ = [
    "Callback",
    "Match",
    "Opponents",
    "Rating",
    "Score",
    "Tournament",
    "TrainResult",
    "Training",
    "evaluate",
    "play_tournament",
    "train",
    "train_agent",
]
