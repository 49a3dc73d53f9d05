"""Test worlds are importable by worker processes, however they are started; whole folders of slow tests are marked as such."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)
sys.path.insert(0, HERE)
os.environ.setdefault("OMP_NUM_THREADS", "1")  # several processes with several threads each would wait for each other
os.environ["PYTHONPATH"] = os.pathsep.join([HERE, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)

SLOW = {"adapters", "agents", "analysis", "channel", "cli", "envs", "journeys", "sim", "training"}
"""Folders whose tests start many processes, run commands, train agents, draw or simulate: left out by `make quick`."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if SLOW & set(item.path.parts):
            item.add_marker("slow")
