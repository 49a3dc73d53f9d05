"""Task spaces: what can be practised."""

from cursus.tasks.base import Axis, Task, TaskSpace
from cursus.tasks.box import Box
from cursus.tasks.coercion import TaskSpaceLike, task_space
from cursus.tasks.discrete import Discrete, Named
from cursus.tasks.drills import Drill, Drills, Ramp
from cursus.tasks.generated import Generated
from cursus.tasks.generators import Buckets, Choice, Single, Span, TaskGenerator
from cursus.tasks.levels import Level, Levels
from cursus.tasks.product import Product

__all__ = [
    "Axis",
    "Box",
    "Buckets",
    "Choice",
    "Discrete",
    "Drill",
    "Drills",
    "Generated",
    "Level",
    "Levels",
    "Named",
    "Product",
    "Ramp",
    "Single",
    "Span",
    "Task",
    "TaskGenerator",
    "TaskSpace",
    "TaskSpaceLike",
    "task_space",
]
