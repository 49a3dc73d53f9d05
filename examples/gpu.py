"""Thousands of environments as tensors on a GPU: their tickets are dealt there, and the teacher looks once per rollout.

pip install "cursus-rl[agents]"
python gpu.py --device cuda --num-envs 16384 --steps 30000000    # without flags: ten seconds on a CPU
"""

import time

import torch
import tyro

import cursus
from cursus.adapters.torch import DeviceTeacher
from cursus.agents import PPO
from cursus.envs.torch import TorchKeys

N_STEPS = 32


def play(agent, envs, tickets, seen, noise):
    """One rollout, all of it on the device: nothing here waits for a value."""
    agent.draw_noise(noise)
    for index in range(N_STEPS):
        kept, actions, _ = agent.explore(seen, noise[index], agent.memory)  # it has none: gru_size is 0
        came = envs.step(actions)
        ended = came.terminated | came.truncated
        tickets.step(ended, rewards=came.rewards, success=came.success)  # where an episode ended, it has the next task now
        seen = envs.begin(ended, tickets.tasks)
        kept |= {"rewards": came.rewards, "terminated": came.terminated, "ended": ended, "valid": tickets.learn}
        agent.rollout.write(index, **kept, next_values=agent.values(came.observations, agent.memory))
    agent.count(N_STEPS * len(seen), 0)
    return seen


def main(steps: int = 1_000_000, num_envs: int = 1024, device: str = "cpu", seed: int = 1) -> None:
    stages = [{"doors": doors} for doors in range(7)]
    teacher = cursus.Teacher(cursus.Staged(stages, gate=cursus.Wilson(threshold=0.6, min_episodes=200)), seed=seed)
    envs = TorchKeys(num_envs, teacher.tasks, device=device, seed=seed)
    tickets = DeviceTeacher(teacher, num_envs, N_STEPS, device=device)
    seen = envs.reset(tickets.tasks)
    agent = PPO(seen.shape[1], num_actions=4, num_envs=num_envs, n_steps=N_STEPS, learning_rate=1e-3, device=device, seed=seed)
    noise = torch.zeros((N_STEPS, num_envs, agent.noise_size), device=device)
    begin = time.perf_counter()
    while agent.steps < steps:
        seen = play(agent, envs, tickets, seen, noise)
        tickets.collect()
        metrics = agent.update_async()  # the device learns, while the host takes the results and deals the next tasks
        tickets.exchange()
        metrics()
    rate = agent.steps / (time.perf_counter() - begin)
    print(teacher.explain())
    print(f"{rate:,.0f} steps per second; tasks were {tickets.staleness.mean:.0f} results behind when they were begun.")
    teacher.close()


if __name__ == "__main__":
    tyro.cli(main)
