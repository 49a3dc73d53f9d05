"""The example of several processes: run with torchrun, with a rank that is killed, and started again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cursus.runs import RunFolder, checkpoint, read_events
from waiting import wait_until

ROOT = Path(__file__).parent.parent.parent


def start(run: Path, steps: int) -> subprocess.Popen[str]:
    script = str(ROOT / "examples" / "distributed.py")
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        script,
        str(steps),
        str(run),
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=run.parent)


def has_student(run: Path) -> bool:
    return any(checkpoint.holds_student(path) for path in checkpoint.list_checkpoints(RunFolder(run).checkpoints))


def ranks_of(job: subprocess.Popen[str]) -> list[int]:
    """Their processes: children of torchrun that have the script's name in their command."""
    children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
    return sorted(int(each) for each in children if b"examples/distributed.py" in Path(f"/proc/{each}/cmdline").read_bytes())


@pytest.mark.timeout(400)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the ranks by /proc")
def test_a_job_whose_rank_is_killed_is_started_again_and_goes_on(tmp_path: Path) -> None:
    run = tmp_path / "run"
    job = start(run, 1_000_000)
    try:
        wait_until(lambda: job.poll() is not None or has_student(run), "a checkpoint")
        os.kill(ranks_of(job)[1], signal.SIGKILL)
        _, told = job.communicate(timeout=150)
    finally:
        job.kill()
    # rank 0 says who is gone, or who started both, who ends rank 0 when it is first to notice
    assert re.search(r"WorkerError: rank 1 \(.*\) is gone|Connection closed by peer|exitcode: -9\) local_rank: 1", told), told
    again = start(run, 1)
    out, told = again.communicate(timeout=150)
    assert again.returncode == 0, told
    assert "Stage" in out
    assert [event["forward"] for event in read_events(run) if event["event"] == "resume"] == [False]
    status = RunFolder(run).read_status()["tickets"]
    assert (status["lost"], status["withdrawn"], status["in_flight"]) == (0, 0, 16)
    assert status["assigned"] == status["finished"] + 16
