"""The training loop."""

from cursus.train.loop import Training, train

__all__ = ["Training", "train"]
