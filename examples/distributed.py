"""PPO on several processes, with one curriculum for all of them. Started again, it goes on where it was.

pip install "cursus-rl[agents]"
torchrun --nproc-per-node 2 distributed.py    # half a minute; steps and run folder may follow
"""

import sys

import gymnasium
import numpy as np
import torch
import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_pre_hook

import cursus
from cursus.adapters.distributed import DistributedTeacher
from cursus.agents import PPO

NUM_ENVS = 8


def average_gradients(optimizer, args, kwargs):
    for parameter in optimizer.param_groups[0]["params"]:
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def play(agent, envs, teacher):
    """Fill rollouts. Episodes that end are reported at every step, whether there are any or not: all ranks keep in step."""
    given = teacher.assign(range(NUM_ENVS))
    tickets, returns, lengths = np.array(given.tickets), np.zeros(NUM_ENVS), np.zeros(NUM_ENVS, int)
    tasks = [teacher.tasks[task].params for task in given.tasks]
    seen = np.stack([env.reset(options={"task": task})[0] for env, task in zip(envs, tasks, strict=True)])
    while True:
        actions = agent.act_batch(seen)
        steps = [env.step(action) for env, action in zip(envs, actions, strict=True)]
        after, rewards, terminated, truncated = (np.array([step[i] for step in steps]) for i in range(4))
        agent.observe(seen, actions, rewards, after, terminated, truncated)
        returns, lengths = returns + rewards, lengths + 1
        seen, ended = after, np.flatnonzero(terminated | truncated)
        won = [steps[env][4]["is_success"] for env in ended]
        given = teacher.exchange(ended, tickets[ended], success=won, returns=returns[ended], lengths=lengths[ended])
        tickets[ended], returns[ended], lengths[ended] = given.tickets, 0, 0
        for env, task in zip(ended, given.tasks, strict=True):
            seen[env], _ = envs[env].reset(options={"task": teacher.tasks[task].params})
        if agent.rollout_full:
            yield


def main(steps=40_000, run="runs/distributed"):
    dist.init_process_group("gloo")  # gloo is enough for what the teacher says, also where gradients go over NCCL
    torch.set_num_threads(1)
    register_optimizer_step_pre_hook(average_gradients)
    rank, size = dist.get_rank(), dist.get_world_size()
    curriculum = cursus.Staged([{"doors": 0}, {"doors": 1}, {"doors": 2}]) if rank == 0 else None
    with DistributedTeacher(curriculum, num_envs=NUM_ENVS, run=run, resume=True) as teacher:
        envs = [gymnasium.make("cursus/Keys-v0") for _ in range(NUM_ENVS)]
        for number, env in enumerate(envs):
            env.reset(seed=1000 * rank + number)
        shape = envs[0].observation_space.shape
        agent = PPO(*shape, num_actions=4, num_envs=NUM_ENVS, n_steps=128, batch_size=256, ent_coef=0.01, seed=rank)
        state = agent.state() if teacher.caller_state is None else teacher.caller_state
        networks = [state["networks"]]
        dist.broadcast_object_list(networks)  # rank 0's for all; exploration and minibatches stay each rank's own
        agent.load({**state, "networks": networks[0]})
        rollouts = play(agent, envs, teacher)
        while agent.steps * size < steps:
            next(rollouts)
            agent.update()
            teacher.checkpoint(agent.state())
        explained = teacher.explain()  # every rank asks
        if rank == 0:
            print(f"{explained}\n{agent.steps * size:,} steps")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*(kind(given) for kind, given in zip((int, str), sys.argv[1:], strict=False)))
