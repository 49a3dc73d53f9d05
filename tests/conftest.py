"""Test worlds are importable by worker processes, however they are started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = str(Path(__file__).parent)
sys.path.insert(0, HERE)
os.environ["PYTHONPATH"] = os.pathsep.join([HERE, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
