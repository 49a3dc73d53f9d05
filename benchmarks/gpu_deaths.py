"""SIGKILL of a training on a device, again and again: every episode counts once, and decisions are those of a replay.

python gpu_deaths.py 100 20 cpu    # million episodes, deaths, device

Environments that end in every second step, so that there are as many episodes as steps can bring. One JSON object; an error
where a ticket was lost or counted twice, or where decisions differ from a replay of the record.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import cursus
from cursus.replay import replay
from cursus.runs import checkpoint, read_events
from cursus.teacher import Counts

NUM_ENVS, STEPS, SAVE_EVERY = 65_536, 32, 2
MILLION = 1_000_000


def curriculum() -> cursus.Curriculum:
    return cursus.Staged([f"stage {number}" for number in range(200)], gate=cursus.Wilson(threshold=0.6, min_episodes=1000))


def play(run: Path, device: str, episodes: int) -> None:
    """Go on where the run was saved, until so many episodes have finished."""
    import torch

    from cursus.adapters.torch import DeviceTeacher

    torch.set_num_threads(1)
    cursus.set_verbosity("error")
    teacher = cursus.Teacher(curriculum(), run=run, seed=1, resume=True)
    state = teacher.caller_state
    tickets = DeviceTeacher(teacher, NUM_ENVS, STEPS, device=device, state=None if state is None else state["tickets"])
    random = torch.Generator(device=device)
    random.manual_seed(0)
    if state is not None:
        random.set_state(torch.as_tensor(state["random"]))
    rollouts = 0
    while teacher.counts.finished < episodes:
        for _ in range(STEPS):
            draws = torch.rand(NUM_ENVS, generator=random, device=device)
            tickets.step(draws < 0.5, rewards=draws, success=draws < 0.4)
        tickets.exchange()
        rollouts += 1
        if rollouts % SAVE_EVERY == 0:
            teacher.checkpoint({"tickets": tickets.state(), "random": random.get_state().cpu().numpy()})
    teacher.close({"tickets": tickets.state(), "random": random.get_state().cpu().numpy()})


def check(run: Path) -> Counts:
    """The record settles every ticket at most once, and all but those in flight."""
    state = checkpoint.read(checkpoint.list_checkpoints(run / "checkpoints")[-1])
    counts = Counts(**state["tickets"]["counts"])
    settled = np.zeros(counts.assigned, dtype=np.uint8)
    for event in read_events(run):
        if event["event"] in ("finish", "lose", "withdraw"):
            np.add.at(settled, np.asarray(event["ticket"]), 1)
    if settled.max() > 1:
        raise SystemExit(f"{np.count_nonzero(settled > 1):,} tickets are settled twice")
    if np.count_nonzero(settled) != counts.finished + counts.lost + counts.withdrawn:
        raise SystemExit("the record settles other tickets than those that are counted")
    if counts.assigned != counts.finished + counts.lost + counts.withdrawn + counts.in_flight:
        raise SystemExit(f"{counts} do not add up")
    return counts


def main(episodes: int, deaths: int, device: str) -> None:
    context, luck = multiprocessing.get_context("spawn"), np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        run, killed = Path(folder) / "run", 0
        while True:
            goal = episodes if killed == deaths else 10 * episodes
            process = context.Process(target=play, args=(run, device, goal))
            process.start()
            if killed == deaths:
                process.join()
                break
            saved = len(_saved(run)) and max(_saved(run))
            while max(_saved(run), default="") == saved and process.is_alive():  # further than the last one
                time.sleep(0.05)
            time.sleep(luck.uniform(0, 2))
            process.kill()
            process.join()
            killed += 1
            print(f"{killed} of {deaths} deaths", file=sys.stderr)
        if process.exitcode:
            raise SystemExit(f"the last process ended with {process.exitcode}")
        counts = check(run)
        found = replay(run)
        if not found.same:
            raise SystemExit("the decisions of the run do not follow from its record")
    print(json.dumps({"device_kills_survived": killed, "finished": counts.finished, "decisions": len(found.recorded)}))


def _saved(run: Path) -> list[str]:
    return [path.name for path in (run / "checkpoints").glob("*-student.ckpt")]


if __name__ == "__main__":
    main(int(float(sys.argv[1]) * MILLION), int(sys.argv[2]), sys.argv[3])
