"""uv gets what pip would use: indexes, wheels, certificate, constraints and proxy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tools.installer import downloads, uv_settings


@pytest.mark.parametrize(
    ("pip", "arguments", "environment"),
    [
        ({"index_url": "https://pypi.org/simple", "timeout": 15.0}, [], {}),
        ({"index_url": "https://mirror/simple"}, ["--default-index=https://mirror/simple"], {}),
        ({"extra_index_urls": ["file:///a b", "https://c"]}, ["--index=file:///a b", "--index=https://c"], {}),
        ({"find_links": ["/wheels"], "constraints": ["c.txt"]}, ["--find-links=/wheels", "--constraints=c.txt"], {}),
        ({"trusted_hosts": ["mirror"]}, ["--allow-insecure-host=mirror"], {}),
        ({"cert": "/ca", "client_cert": "/me"}, [], {"SSL_CERT_FILE": "/ca", "SSL_CLIENT_CERT": "/me"}),
        (
            {"proxy": "http://p", "timeout": 60},
            [],
            {"HTTP_PROXY": "http://p", "HTTPS_PROXY": "http://p", "UV_HTTP_TIMEOUT": "60"},
        ),
    ],
)
def test_settings_of_pip_are_handed_to_uv(
    pip: dict[str, Any], arguments: list[str], environment: dict[str, str]
) -> None:
    assert uv_settings(pip) == (["--index-strategy=unsafe-best-match", *arguments], environment)


def test_without_an_index_only_wheels_are_used() -> None:
    pip = {
        "no_index": True,
        "index_url": "https://mirror",
        "extra_index_urls": ["https://c"],
        "find_links": ["/wheels"],
    }

    assert uv_settings(pip) == (["--no-index", "--find-links=/wheels"], {})


def test_downloads_are_told_in_files_and_megabytes(tmp_path: Path) -> None:
    (tmp_path / "own.whl").write_bytes(bytes(3_000_000))
    packages = [
        {"name": "a", "wheels": [{"url": "https://x/a.whl", "size": 7_000_000}], "sdist": {"url": "y", "size": 10**9}},
        {"name": "b", "sdist": {"url": "https://x/b.tar.gz", "size": 1_000_000}},
        {"name": "c", "wheels": [{"url": "https://x/c.whl"}]},
        {"name": "d", "wheels": [{"url": f"file://{tmp_path}/own.whl"}]},
    ]

    said = "2 files, 8 MB and 1 files of a size that the index does not tell and 1 files of this machine, 3 MB"
    assert downloads({"packages": packages}) == said
