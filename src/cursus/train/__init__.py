"""Training agents through a course."""

from cursus.train.evaluate import Score, evaluate, hockey_tasks
from cursus.train.loop import Training, train_agent
from cursus.train.opponents import Opponents
from cursus.train.run import TrainResult, train

__all__ = ["Opponents", "Score", "TrainResult", "Training", "evaluate", "hockey_tasks", "train", "train_agent"]
