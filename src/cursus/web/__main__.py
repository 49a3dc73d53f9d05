"""`python -m cursus.web FOLDER`: the page beside a training, until its standard input is closed, whoever dies first."""

from __future__ import annotations

import sys
from contextlib import suppress

from cursus.errors import SettingsError
from cursus.web.server import PageServer


def main(folder: str) -> None:
    """Serve the page of `folder` at the usual port, or at any that is free, and print its address."""
    try:
        page = PageServer(folder)
    except SettingsError:
        page = PageServer(folder, port=0)
    with page, suppress(KeyboardInterrupt):
        print(page.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
