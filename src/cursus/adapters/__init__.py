"""Adapters, one foreign library a file: Gymnasium, Stable-Baselines3, PufferLib."""
