"""The run folder: settings, append-only ledger of events, status and checkpoints on disk."""

from cursus.runs.folder import SCHEMA, RunFolder
from cursus.runs.ledger import Ledger, NullLedger, is_open
from cursus.runs.record import (
    EventTail,
    checked_decision,
    events_since,
    holds_run,
    read_decisions,
    read_events,
    read_notes,
    valid_spans,
)

__all__ = [
    "SCHEMA",
    "EventTail",
    "Ledger",
    "NullLedger",
    "RunFolder",
    "checked_decision",
    "events_since",
    "holds_run",
    "is_open",
    "read_decisions",
    "read_events",
    "read_notes",
    "valid_spans",
]
