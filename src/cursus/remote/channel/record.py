"""How a record lies in a ring."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from cursus.errors import SettingsError

_CODES = {"i": "q", "u": "Q", "f": "d"}
_OURS = ("ring", "sequence")


class Record:
    """A sequence number, the fields, and a checksum: words of eight bytes, all of them."""

    def __init__(self, fields: DTypeLike) -> None:
        dtype = np.dtype(fields)
        kinds = {name: dtype[name] for name in dtype.names or ()}
        wrong = [name for name, kind in kinds.items() if kind.kind not in _CODES or kind.itemsize != 8 or not kind.isnative]
        if not kinds or wrong or any(name in _OURS for name in kinds):
            raise SettingsError(
                f"a record is a structured type of i8, u8 and f8 fields not called ring or sequence, such as "
                f"[('task', 'i8'), ('score', 'f8')], not {dtype}."
            )
        self.fields = tuple((name, f"{kind.kind}8") for name, kind in kinds.items())
        self._body = struct.Struct("=" + "".join(_CODES[kind.kind] for kind in kinds.values()))
        self.whole = struct.Struct(f"=Q{self._body.size}sQ")
        self._stored = np.dtype([("sequence", "u8"), *self.fields, ("checksum", "u8")])
        self.drained = np.dtype([("ring", "i8"), ("sequence", "i8"), *self.fields])

    def pack(self, values: Sequence[float]) -> bytes:
        """The fields as bytes."""
        try:
            return self._body.pack(*values)
        except struct.error as error:
            names = ", ".join(f"{name} ({kind})" for name, kind in self.fields)
            raise SettingsError(f"a record has the fields {names}, not {values!r:.100}: {error}.") from None

    def table(self, parts: Sequence[tuple[int, bytes]]) -> NDArray[Any]:
        """The records of some rings, each given by its number and its records as they are stored, as one table."""
        if not parts:
            return np.empty(0, dtype=self.drained)
        stored = np.frombuffer(b"".join([data for _, data in parts]), dtype=self._stored)
        made = np.empty(len(stored), dtype=self.drained)
        made["ring"] = np.repeat([ring for ring, _ in parts], [len(data) // self.whole.size for _, data in parts])
        for name in ("sequence", *[name for name, _ in self.fields]):
            made[name] = stored[name]
        return made
