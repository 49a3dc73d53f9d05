"""PPO in one file, as CleanRL writes it, under a curriculum: network, rollout and update are all here.

pip install "cursus-rl[agents]"
python ppo.py --steps 100000    # ten seconds
"""

import torch
import tyro
from torch import nn
from torch.distributions import Categorical

import cursus

NUM_ENVS, NUM_STEPS, EPOCHS, MINIBATCHES = 16, 128, 4, 4
GAMMA, GAE_LAMBDA, CLIP, ENT_COEF, VF_COEF, MAX_GRAD_NORM = 0.97, 0.95, 0.2, 0.01, 0.5, 0.5


class Agent(nn.Module):
    def __init__(self, size, num_actions):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(size, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, num_actions))
        self.critic = nn.Sequential(nn.Linear(size, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, observations):
        return Categorical(logits=self.actor(observations)), self.critic(observations).squeeze(-1)


def collect(agent, envs, seen):
    """A rollout with its advantages (GAE), the last rewards of the episodes that ended in it, and what is seen after it."""
    rows = []
    for _ in range(NUM_STEPS):
        policy, values = agent(seen)
        actions = policy.sample()
        after, rewards, terminated, truncated, _ = envs.step(actions.numpy())
        outcome = torch.as_tensor(rewards).float(), torch.as_tensor(terminated | truncated)
        rows.append((seen, actions, policy.log_prob(actions), values, *outcome))
        seen = torch.as_tensor(after)
    *rollout, values, rewards, dones = (torch.stack(column) for column in zip(*rows, strict=True))
    advantages, advantage, after = torch.zeros_like(rewards), 0.0, agent(seen)[1]
    for t in reversed(range(NUM_STEPS)):
        delta = rewards[t] + GAMMA * after * ~dones[t] - values[t]
        advantages[t] = advantage = delta + GAMMA * GAE_LAMBDA * ~dones[t] * advantage
        after = values[t]
    return [column.flatten(0, 1) for column in (*rollout, advantages, advantages + values)], rewards[dones], seen


def update(agent, optimizer, rollout):
    for _ in range(EPOCHS):
        for rows in torch.randperm(NUM_STEPS * NUM_ENVS).chunk(MINIBATCHES):
            observations, actions, log_probs, advantages, returns = (column[rows] for column in rollout)
            policy, values = agent(observations)
            ratio = (policy.log_prob(actions) - log_probs).exp()
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
            gain = torch.min(advantages * ratio, advantages * ratio.clamp(1 - CLIP, 1 + CLIP))
            loss = (VF_COEF * 0.5 * (values - returns) ** 2 - gain - ENT_COEF * policy.entropy()).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), MAX_GRAD_NORM)
            optimizer.step()


def main(steps: int = 100_000, seed: int = 1) -> None:
    torch.manual_seed(seed)
    curriculum = cursus.Staged([{"doors": doors} for doors in range(7)])
    envs = cursus.make_vec("cursus/Keys-v0", NUM_ENVS, curriculum=curriculum, autoreset="same_step", seed=seed)
    agent = Agent(envs.single_observation_space.shape[0], int(envs.single_action_space.n))
    optimizer = torch.optim.Adam(agent.parameters(), lr=1e-3, eps=1e-5)
    seen = torch.as_tensor(envs.reset()[0])
    for step in range(0, steps, NUM_STEPS * NUM_ENVS):
        with torch.no_grad():
            rollout, ends, seen = collect(agent, envs, seen)
        update(agent, optimizer, rollout)
        print(f"{step + NUM_STEPS * NUM_ENVS:,} steps, {len(ends)} episodes, success {(ends > 0).float().mean():.0%}")
    print(envs.teacher.explain())
    envs.close()


if __name__ == "__main__":
    tyro.cli(main)
