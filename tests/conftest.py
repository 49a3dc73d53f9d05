"""Test worlds are importable by worker processes, however they are started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = str(Path(__file__).parent)
sys.path.insert(0, HERE)
os.environ.setdefault("OMP_NUM_THREADS", "1")  # several processes with several threads each would wait for each other
os.environ["PYTHONPATH"] = os.pathsep.join([HERE, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
