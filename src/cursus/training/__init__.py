"""Training agents through a course."""

from cursus.training.evaluate import Score, evaluate, hockey_tasks
from cursus.training.loop import train_agent
from cursus.training.opponents import Opponents
from cursus.training.report import Training
from cursus.training.run import TrainResult, train

__all__ = ["Opponents", "Score", "TrainResult", "Training", "evaluate", "hockey_tasks", "train", "train_agent"]
