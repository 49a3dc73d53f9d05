"""The laws of Cursus as checks that anyone can run over their own task space, gate, curriculum, memory or teacher.

Each check raises an `AssertionError` that says which law was broken and how::

    from cursus.testing import check_curriculum

    def test_my_curriculum_keeps_the_laws():
        check_curriculum(lambda: MyCurriculum(num_tasks=10))
"""

from cursus.testing.curricula import check_curriculum, check_gate, check_task_space
from cursus.testing.desks import check_desk
from cursus.testing.memories import check_memory
from cursus.testing.teachers import check_teacher, check_vector

__all__ = ["check_curriculum", "check_desk", "check_gate", "check_memory", "check_task_space", "check_teacher", "check_vector"]
