"""Adapters, one foreign library a file: Gymnasium, Stable-Baselines3, PufferLib, PettingZoo, torch.distributed, Ray, RLlib."""
