"""A config with values drawn into it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cursus.errors import SettingsError
from cursus.tasks.generators.base import Draft, TaskGenerator, check_label, check_overrides
from cursus.tasks.generators.bucket import Bucket
from cursus.tasks.generators.paths import after_setting, check_apart, check_path, overlap, put
from cursus.tasks.generators.single import as_generator
from cursus.tasks.generators.source import Source
from cursus.tasks.generators.span import Span


class Buckets(TaskGenerator):
    """What `base` draws, with one of several values in each of some places; at last come the `overrides`.

    `buckets` says for each dotted path which values there are: a list, or a `Span` to draw numbers from. All values of
    a bucket are equally likely, and buckets are drawn independently of each other, of `base`, and of their own order.

    The values are part of the label, such as `size:4|lava:True`: those of lists, and those of spans that have `bins`.
    `label_by` chooses which paths take part, in its own order; an empty list leaves all out.

    >>> from cursus.tasks import Generated
    >>> rooms = Buckets({"size": 5, "light": {"lamps": 1}}, {"size": [4, 8], "light.lamps": Span(0, 9)})
    >>> Generated(rooms, seed=1)[3]
    Task(id=3, label='size:8', params={'size': 8, 'light': {'lamps': 3}})
    """

    def __init__(
        self,
        base: TaskGenerator | Mapping[str, Any],
        buckets: Mapping[str, Sequence[Any] | Span],
        *,
        label: str = "",
        label_by: Sequence[str] | None = None,
        overrides: Mapping[str, Any] | None = None,
    ) -> None:
        self._base = as_generator("base", base)
        if not isinstance(buckets, Mapping) or not buckets:
            raise SettingsError(f"buckets={buckets!r:.80} must map at least one path to its values: {{'size': [4, 8]}}.")
        self._check_paths(list(buckets))
        self._label = check_label(label)
        self._label_by = _check_label_by(label_by, buckets)
        self._buckets = {
            path: Bucket(path, values, None if self._label_by is None else path in self._label_by)
            for path, values in buckets.items()
        }
        self._overrides = check_overrides(overrides, self._inner_paths(), self.all_buckets(), self)

    def draw(self, source: Source) -> Draft:
        """What the base draws, with the values set over it."""
        draft = self._base.draw(source.child("base"))
        for path, bucket in self._buckets.items():
            put(draft.params, {path: bucket.draw(source.child("buckets", path))})
        in_order = [*(self._label_by or ()), *self._buckets]
        draft.buckets += [self._buckets[path] for path in dict.fromkeys(in_order)]
        return draft.finish(self._label, self._overrides)

    def paths(self) -> frozenset[str]:
        """Those of the base, with those inside the values that are dicts."""
        return after_setting(self._inner_paths(), {path: [value] for path, value in self._overrides.items()})

    def all_buckets(self) -> list[Bucket]:
        """The buckets of the base and these."""
        return [*self._base.all_buckets(), *self._buckets.values()]

    def settings(self) -> Mapping[str, Any]:
        """`base`, `buckets`, `label`, `label_by`, `overrides`."""
        return {
            "base": self._base,
            "buckets": {path: bucket.values for path, bucket in self._buckets.items()},
            "label": self._label,
            "label_by": self._label_by,
            "overrides": self._overrides,
        }

    def _check_paths(self, paths: list[str]) -> None:
        known = self._base.paths()
        for path in paths:
            check_path("bucket", path, known, self._base)
            for inner in self._base.all_buckets():
                if overlap(path, inner.path):
                    raise SettingsError(f"bucket {path!r} would undo bucket {inner.path!r} inside {self._base!r}. Give one.")
        check_apart("buckets", paths)

    def _inner_paths(self) -> frozenset[str]:
        lists = {path: bucket.values if isinstance(bucket.values, list) else () for path, bucket in self._buckets.items()}
        return after_setting(self._base.paths(), lists)

    def __repr__(self) -> str:
        return f"Buckets({self._base!r}, {', '.join(self._buckets)})"


def _check_label_by(label_by: Any, buckets: Mapping[str, Any]) -> list[str] | None:
    if label_by is None:
        return None
    if isinstance(label_by, str) or not isinstance(label_by, Sequence):
        raise SettingsError(f"label_by={label_by!r:.80} is not a list of paths. An empty one leaves all values out.")
    for place, path in enumerate(label_by):
        if path not in list(buckets):
            raise SettingsError(f"label_by names {path!r}, which is no bucket. There are: {', '.join(buckets)}.")
        if path in label_by[:place]:
            raise SettingsError(f"label_by names {path!r} twice.")
    return list(label_by)
