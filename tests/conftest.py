"""Test worlds are importable by worker processes, however they are started; whole folders of slow tests are marked as such."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

HERE = str(Path(__file__).parent)
sys.path.insert(0, HERE)
os.environ.setdefault("OMP_NUM_THREADS", "1")  # several processes with several threads each would wait for each other
os.environ["PYTHONPATH"] = os.pathsep.join([HERE, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell; children would ignore it, too
    signal.signal(signal.SIGINT, signal.default_int_handler)

SLOW = {"adapters", "agents", "analysis", "channel", "cli", "envs", "journeys", "sim", "training"}
"""Folders whose tests start many processes, run commands, train agents, draw or simulate: left out by `make quick`."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if SLOW & set(item.path.parts):
            item.add_marker("slow")


@pytest.fixture
def compiled_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """`torch.compile` traces and differentiates as always, in one graph, but makes no kernels; the functions it was given."""
    import torch

    given: list[Any] = []
    really = torch.compile

    def traced(function: Any, **settings: Any) -> Any:
        given.append(function)
        return really(function, **{**settings, "fullgraph": True, "backend": "aot_eager"})

    monkeypatch.setattr(torch, "compile", traced)
    return given
