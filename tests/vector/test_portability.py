"""Vector environments on systems without what only Linux has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LINUX_ONLY = ("sched_getaffinity", "sched_yield", "memfd_create", "posix_fallocate", "eventfd", "pidfd_open")


@pytest.mark.slow
@pytest.mark.parametrize("start_method", ["fork", "forkserver", "spawn"])
def test_workers_run_where_there_is_nothing_of_linux(start_method: str, tmp_path: Path) -> None:
    """Python reads `sitecustomize` first in every process, so that workers miss these functions too."""
    removal = f"import os\nfor name in {LINUX_ONLY}:\n    if hasattr(os, name):\n        delattr(os, name)\n"
    (tmp_path / "sitecustomize.py").write_text(removal)
    script = tmp_path / "train.py"
    script.write_text(
        "import os, numpy as np, cursus\n"
        "from worlds import Corridor\n"
        "if __name__ == '__main__':\n"
        "    assert not hasattr(os, 'memfd_create')\n"
        f"    how = dict(curriculum=cursus.Staged(['a', 'b']), run='run', start_method={start_method!r}, seed=3)\n"
        "    envs = cursus.make_vec(Corridor, 6, num_workers=2, **how)\n"
        "    envs.reset()\n"
        "    for _ in range(300): envs.step(np.zeros(6, dtype=int))\n"
        "    assert not any(envs.call(lambda env: hasattr(os, 'memfd_create')))\n"
        "    print(envs.teacher.counts.finished)\n"
        "    envs.close()\n"
        "    envs = cursus.make_vec(Corridor, 2)\n"
        "    envs.close()\n"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 100
    left = {each.name for each in tmp_path.iterdir()} - {"sitecustomize.py", "train.py", "run", "__pycache__"}
    assert not left, "the memory has no name"
