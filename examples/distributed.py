"""PPO on several processes, with one curriculum for all of them. Started again, it goes on where it was.

torchrun --nproc-per-node 2 examples/distributed.py
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
    gradients = [parameter.grad for group in optimizer.param_groups for parameter in group["params"]]
    together = torch.cat([each.flatten() for each in gradients])
    dist.all_reduce(together)
    means = (together / dist.get_world_size()).split([each.numel() for each in gradients])
    for gradient, mean in zip(gradients, means, strict=True):
        gradient.copy_(mean.view_as(gradient))


def begin_alike(agent):
    """Rank 0's weights for all; exploration and minibatches stay each rank's own."""
    mine = agent.state()
    shared = [mine["networks"]]
    dist.broadcast_object_list(shared)
    agent.load({**mine, "networks": shared[0]})


def play(agent, envs, teacher, given):
    """Fill one rollout. Episodes that end are reported at every step, whether there are any or not: all ranks keep in step."""
    count = len(envs)
    tickets, lengths = np.array(given.tickets), np.zeros(count, int)
    returns = np.zeros(count)
    seen = np.stack(
        [env.reset(options={"task": teacher.tasks[task].params})[0] for env, task in zip(envs, given.tasks, strict=True)]
    )
    while True:
        while not agent.rollout_full:
            actions = agent.act_batch(seen)
            steps = [env.step(action) for env, action in zip(envs, actions, strict=True)]
            after = np.stack([step[0] for step in steps])
            rewards, terminated, truncated = (np.array([step[i] for step in steps]) for i in (1, 2, 3))
            agent.observe(seen, actions, rewards, after, terminated, truncated)
            returns += rewards
            lengths += 1
            seen, ended = after, np.flatnonzero(terminated | truncated)
            won = [steps[env][4]["is_success"] for env in ended]
            given = teacher.exchange(ended, tickets[ended], success=won, returns=returns[ended], lengths=lengths[ended])
            tickets[ended], returns[ended], lengths[ended] = given.tickets, 0, 0
            for env, task in zip(ended, given.tasks, strict=True):
                seen[env], _ = envs[env].reset(options={"task": teacher.tasks[task].params})
        yield


def main(steps, run):
    dist.init_process_group("gloo")  # gloo is enough for what the teacher says, also where gradients go over NCCL
    torch.set_num_threads(1)
    register_optimizer_step_pre_hook(average_gradients)
    rank, size = dist.get_rank(), dist.get_world_size()
    curriculum = cursus.Staged([{"doors": 0}, {"doors": 1}, {"doors": 2}]) if rank == 0 else None
    with DistributedTeacher(curriculum, num_envs=NUM_ENVS, run=run, resume=True) as teacher:
        envs = [gymnasium.make("cursus/Keys-v0") for _ in range(NUM_ENVS)]
        size_seen = envs[0].observation_space.shape[0]
        agent = PPO(size_seen, num_actions=4, num_envs=NUM_ENVS, n_steps=128, batch_size=256, ent_coef=0.01, seed=rank)
        if teacher.caller_state is None:
            begin_alike(agent)
        else:
            agent.load(teacher.caller_state)
        for number, env in enumerate(envs):
            env.reset(seed=1000 * rank + number)
        rollouts = play(agent, envs, teacher, teacher.assign(range(NUM_ENVS)))
        while agent.steps * size < steps:
            next(rollouts)
            agent.update()
            teacher.checkpoint(agent.state())
            if rank == 0:
                print(f"{agent.steps * size:,} steps, {teacher.counts.finished:,} episodes", flush=True)
        explained = teacher.explain()
        if rank == 0:
            print(explained)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40_000, sys.argv[2] if len(sys.argv) > 2 else "runs/distributed")
