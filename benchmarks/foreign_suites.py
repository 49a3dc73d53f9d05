"""The vector tests of Stable-Baselines3 and of Gymnasium, with our environments in the place of theirs: a yardstick.

    python benchmarks/foreign_suites.py                    # Stable-Baselines3: its sources are downloaded; needs pandas
    python benchmarks/foreign_suites.py --gymnasium PATH   # Gymnasium: PATH is a checkout; its distribution has no such tests

`docs/vector.md` has the counts and says why the rest does not pass. It is also the pytest plugin that puts ours in place.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FILES = {"sb3": ["tests/test_vec_*.py"], "gymnasium": ["tests/vector/test_*_env.py", "tests/vector/test_*_mode.py"]}


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the vector tests of other libraries over our environments.")
    parser.add_argument("--gymnasium", type=Path, help="a checkout of Gymnasium's repository")
    parser.add_argument("--theirs", action="store_true", help="run them over their own environments, to compare")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if arguments.gymnasium is not None:
            run_suite("gymnasium", arguments.gymnasium, arguments.theirs)
        else:
            run_suite("sb3", download("stable-baselines3", Path(folder)), arguments.theirs)


def download(distribution: str, folder: Path) -> Path:
    """The sources of the version that is installed here."""
    wanted = f"{distribution}=={importlib.metadata.version(distribution)}"
    options = ["--no-binary", ":all:", "--no-deps", "--no-build-isolation", "--dest", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", *options, wanted], check=True)
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    return next(each for each in folder.iterdir() if each.is_dir())


def run_suite(name: str, sources: Path, theirs: bool) -> None:
    files = [str(path.relative_to(sources)) for pattern in FILES[name] for path in sorted(sources.glob(pattern))]
    plugin = [] if theirs else ["-p", "foreign_suites"]
    path = os.pathsep.join([str(HERE), str(HERE.parent / "src"), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-W", "ignore", "-p", "no:cacheprovider", *plugin, *files]
    subprocess.run(command, cwd=sources, env={**os.environ, "PYTHONPATH": path, "FOREIGN_SUITE": name}, check=False)


# ---- the plugin


def pytest_configure() -> None:
    """Before any test is imported: their names mean ours."""
    if os.environ.get("FOREIGN_SUITE") == "sb3":
        _replace_sb3()
    elif os.environ.get("FOREIGN_SUITE") == "gymnasium":
        _replace_gymnasium()


def _replace_sb3() -> None:
    from stable_baselines3.common import env_util, vec_env

    import cursus
    from cursus.adapters.sb3 import SB3VecEnv

    class DummyVecEnv(SB3VecEnv):
        def __init__(self, env_fns: list[Any]) -> None:
            super().__init__(cursus.make_vec(env_fns, num_workers=0, autoreset="same_step"))

    class SubprocVecEnv(SB3VecEnv):
        def __init__(self, env_fns: list[Any], start_method: str | None = None) -> None:
            how = {"num_workers": len(env_fns), "parent_steps": False, "start_method": start_method}
            super().__init__(cursus.make_vec(env_fns, autoreset="same_step", **how))

    vec_env.DummyVecEnv, vec_env.SubprocVecEnv = DummyVecEnv, SubprocVecEnv
    env_util.DummyVecEnv = DummyVecEnv


def _replace_gymnasium() -> None:
    import gymnasium.vector
    from gymnasium.vector import AutoresetMode

    import cursus

    def made(env_fns: Any, how: dict[str, Any], given: dict[str, Any]) -> Any:
        if given.get("observation_mode", "same") != "same":
            raise NotImplementedError("all our environments have the same spaces")
        mode = AutoresetMode(given.get("autoreset_mode", AutoresetMode.NEXT_STEP))
        return cursus.make_vec(list(env_fns), copy=given.get("copy", True), autoreset=mode, info_keys="all", **how)

    def sync(env_fns: Any, **given: Any) -> Any:
        return made(env_fns, {"num_workers": 0}, given)

    def asynchronous(env_fns: Any, **given: Any) -> Any:
        return made(env_fns, {"num_workers": len(env_fns), "parent_steps": False, "start_method": "fork"}, given)

    gymnasium.vector.SyncVectorEnv, gymnasium.vector.AsyncVectorEnv = sync, asynchronous


if __name__ == "__main__":
    main()
