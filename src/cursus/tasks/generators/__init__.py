"""How configs are made from seeds: one as it is, one of several, one with values drawn into it."""

from cursus.tasks.generators.base import Draft, TaskGenerator
from cursus.tasks.generators.buckets import Buckets
from cursus.tasks.generators.choice import Choice
from cursus.tasks.generators.single import Single
from cursus.tasks.generators.source import Source
from cursus.tasks.generators.span import Span

__all__ = ["Buckets", "Choice", "Draft", "Single", "Source", "Span", "TaskGenerator"]
