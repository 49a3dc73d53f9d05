"""Numbers about a course."""

from cursus.metrics.course import CourseStatistics
from cursus.metrics.gini import effective_number, entropy, gini, normalised_entropy
from cursus.metrics.names import DEFINITIONS, definition

__all__ = ["DEFINITIONS", "CourseStatistics", "definition", "effective_number", "entropy", "gini", "normalised_entropy"]
