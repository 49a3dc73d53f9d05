"""Task generators: how configs are made from seeds (one as it is, one of several, one with values drawn into it)."""

from cursus.tasks.generators.base import Draft, TaskGenerator
from cursus.tasks.generators.configs import Buckets, Choice, Single
from cursus.tasks.generators.values import Source, Span

__all__ = ["Buckets", "Choice", "Draft", "Single", "Source", "Span", "TaskGenerator"]
