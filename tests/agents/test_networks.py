"""Networks and their gradients, beside plainer ways to compute the same."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from cursus.agents.actors import SquashedGaussian
from cursus.agents.networks import RunningNorm, TwinQ, adam, mlp, polyak_update, seeded, set_gradients

CPU = torch.device("cpu")


@pytest.mark.parametrize("hidden", [(), (16,), (16, 8)])
def test_two_critics_in_one_are_and_learn_like_two(hidden: tuple[int, ...]) -> None:
    with seeded(3):
        twin = TwinQ(5, 2, hidden)
    with seeded(3):
        pair = nn.ModuleList([mlp(7, hidden, 1), mlp(7, hidden, 1)])
    optimiser, plain = adam(twin, 0.01, CPU), torch.optim.Adam(pair.parameters(), lr=0.01)
    observations, actions = torch.randn(2, 32, 7, generator=torch.Generator().manual_seed(0)).split([5, 2], dim=2)
    for _ in range(20):
        values = twin(observations[0], actions[0])
        expected = torch.stack([each(torch.cat([observations[0], actions[0]], dim=1)).squeeze(1) for each in pair])
        torch.testing.assert_close(values, expected)
        set_gradients((values - 1).square().mean(), twin)
        optimiser.step()
        plain.zero_grad()
        (expected - 1).square().mean().backward()
        plain.step()


def test_gradients_are_those_of_one_network_alone() -> None:
    actor, critic = SquashedGaussian(3, 2, (8,)), TwinQ(3, 2, (8,))
    observations, noise = torch.randn(16, 3), torch.randn(16, 2)
    actions, log_probability = actor.sample(observations, noise)
    loss = (log_probability - critic(observations, actions).amin(dim=0)).mean()
    set_gradients(loss, actor)
    assert all(each.grad is not None and each.grad.is_contiguous() for each in actor.parameters())
    assert all(each.grad is None for each in critic.parameters())


def test_log_probabilities_are_those_of_the_squashed_distribution() -> None:
    actor = SquashedGaussian(3, 2, (8,))
    observations, noise = torch.randn(64, 3), torch.randn(64, 2)
    actions, found = actor.sample(observations, noise)
    mean, std = actor(observations)
    normal = torch.distributions.Normal(mean.double(), std.double())
    squashed = torch.distributions.TransformedDistribution(normal, [torch.distributions.TanhTransform()])
    torch.testing.assert_close(actions.double(), torch.tanh(mean + std * noise).double(), atol=1e-6, rtol=0)
    expected = squashed.log_prob(torch.tanh((mean + std * noise).double())).sum(dim=1)
    torch.testing.assert_close(found.double(), expected, atol=1e-3, rtol=1e-3)


def test_a_target_follows_by_its_share() -> None:
    target, source = nn.Linear(3, 2), nn.Linear(3, 2)
    expected = [0.75 * behind + 0.25 * ahead for behind, ahead in zip(target.parameters(), source.parameters(), strict=True)]
    polyak_update(target, source, 0.25)
    torch.testing.assert_close(list(target.parameters()), expected)
    polyak_update(target, source, 1.0)
    torch.testing.assert_close(list(target.parameters()), list(source.parameters()))


def test_the_running_mean_and_variance_are_those_of_everything_seen() -> None:
    rng = torch.Generator().manual_seed(0)
    parts = [5.0 + 3.0 * torch.randn((rows, 4), generator=rng) for rows in (1, 7, 64, 2, 300)]
    norm = RunningNorm(4)
    for part in parts:
        norm.update(part)
    everything = torch.cat(parts)
    assert torch.allclose(norm.mean, everything.mean(dim=0), atol=1e-4)
    assert torch.allclose(norm.var, everything.var(dim=0, correction=0), rtol=1e-4)
    assert int(norm.count) == len(everything)
    normalised = norm(everything)
    assert normalised.mean().item() == pytest.approx(0.0, abs=1e-4)
    assert normalised.std().item() == pytest.approx(1.0, abs=0.01)
    assert norm(torch.full((1, 4), 1e9)).tolist() == [[10.0] * 4]


def test_what_has_not_varied_is_normalised_to_nothing() -> None:
    norm = RunningNorm(2)
    norm.update(torch.ones((3, 2)))
    assert norm(torch.ones((1, 2))).tolist() == [[0.0, 0.0]]
