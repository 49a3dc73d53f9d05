"""The run folder: settings, append-only ledger of events, status and checkpoints on disk."""

from cursus.runs.folder import SCHEMA, RunFolder
from cursus.runs.ledger import (
    Ledger,
    NullLedger,
    checked_decision,
    events_since,
    holds_run,
    is_open,
    read_decisions,
    read_events,
    read_notes,
    valid_spans,
)

__all__ = [
    "SCHEMA",
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
