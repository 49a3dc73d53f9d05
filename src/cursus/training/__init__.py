"""Training an agent in an environment under a curriculum: plans, the loop, callbacks, opponents, evaluation, videos."""

from cursus.training.callbacks import Callback, Training
from cursus.training.evaluate import Score, evaluate
from cursus.training.learner import train_agent
from cursus.training.opponents import Opponents
from cursus.training.run import TrainResult, train

__all__ = ["Callback", "Opponents", "Score", "TrainResult", "Training", "evaluate", "train", "train_agent"]
