"""uv with the package index of pip: `python tools/installer.py uv WORDS…`, called by setup.sh in its environment.

uv does not read pip's configuration. `lock` instead of `uv` leaves out indexes and folders that have a part of the files.
`downloads PYLOCK` prints number and size of the files of a resolution.
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_PYPI = "https://pypi.org/simple"
_PIPS_TIMEOUT = 15.0


def uv_settings(pip: Mapping[str, Any]) -> tuple[list[str], dict[str, str]]:
    """Return the arguments and the environment that give uv the settings of pip, by the names of pip's options.

    >>> uv_settings({"extra_index_urls": ["file:///more"], "cert": "/etc/ca.pem"})
    (['--index-strategy=unsafe-best-match', '--index=file:///more'], {'SSL_CERT_FILE': '/etc/ca.pem'})
    """
    # pip takes the best version of all indexes
    arguments = ["--index-strategy=unsafe-best-match"]
    if pip.get("no_index"):
        arguments = ["--no-index"]
    else:
        index = str(pip.get("index_url") or _PYPI)
        arguments += [f"--default-index={index}"] if index.rstrip("/") != _PYPI else []
        arguments += [f"--index={url}" for url in pip.get("extra_index_urls") or ()]
    arguments += [f"--find-links={place}" for place in pip.get("find_links") or ()]
    arguments += [f"--constraints={file}" for file in pip.get("constraints") or ()]
    arguments += [f"--allow-insecure-host={host}" for host in pip.get("trusted_hosts") or ()]
    proxy = pip.get("proxy")
    environment = {
        "SSL_CERT_FILE": pip.get("cert"),
        "SSL_CLIENT_CERT": pip.get("client_cert"),
        "HTTP_PROXY": proxy,
        "HTTPS_PROXY": proxy,
        "UV_HTTP_TIMEOUT": str(int(pip["timeout"])) if pip.get("timeout", _PIPS_TIMEOUT) != _PIPS_TIMEOUT else None,
    }
    return arguments, {name: str(value) for name, value in environment.items() if value}


def downloads(pylock: Mapping[str, Any]) -> str:
    """Return number and size of the files of a resolution in the format pylock.toml."""
    remote: list[int] = []
    local: list[int] = []
    unknown = 0
    for package in pylock["packages"]:
        file = next(iter(package.get("wheels", ())), None) or package.get("sdist") or package.get("archive") or {}
        if (path := file.get("path") or str(file.get("url", "")).removeprefix("file://")).startswith("/"):
            local.append(Path(path).stat().st_size)
        elif "size" in file:
            remote.append(file["size"])
        else:
            unknown += 1
    parts = [f"{len(remote)} files, {sum(remote) / 1e6:.0f} MB"]
    parts += [f"{unknown} files of a size that the index does not tell"] if unknown else []
    parts += [f"{len(local)} files of this machine, {sum(local) / 1e6:.0f} MB"] if local else []
    return " and ".join(parts)


def _pip_options() -> dict[str, Any]:
    from pip._internal.commands import create_command  # its configuration files and variables, merged

    return dict(vars(create_command("install").parse_args([])[0]))


def main() -> None:
    if sys.argv[1] == "downloads":
        print(downloads(tomllib.loads(Path(sys.argv[2]).read_text())))
        return
    arguments, environment = uv_settings(_pip_options())
    uv = str(Path(sys.executable).with_name("uv"))
    # the lock has the versions
    omitted = ["--constraints=", *(["--index=", "--find-links="] if sys.argv[1] == "lock" else [])]
    arguments = [each for each in arguments if not each.startswith(tuple(omitted))]
    words = [uv, "--no-progress", "pip", *sys.argv[2:], "--python", sys.executable, *arguments]
    os.execve(uv, words, {"UV_COMPILE_BYTECODE_TIMEOUT": "0"} | dict(os.environ) | environment)


if __name__ == "__main__":
    main()
