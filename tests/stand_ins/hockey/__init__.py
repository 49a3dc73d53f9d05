"""Stands in for another library, https://github.com/martius-lab/hockey-env, which is on no registry: see `hockey_env`."""
