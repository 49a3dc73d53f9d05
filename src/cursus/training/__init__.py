"""Training an agent under a curriculum: plans, the loop, callbacks, opponents, evaluation, plots and videos."""

from cursus.training.callbacks import Training
from cursus.training.evaluate import Score, evaluate
from cursus.training.hockey import hockey_tasks
from cursus.training.loop import train_agent
from cursus.training.opponents import Opponents
from cursus.training.run import TrainResult, train

__all__ = ["Opponents", "Score", "TrainResult", "Training", "evaluate", "hockey_tasks", "train", "train_agent"]
