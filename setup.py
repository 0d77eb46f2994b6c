"""Packages and long description of the wheel. All other metadata are in pyproject.toml.

In a checkout the configuration is the folder conf/, where users edit it. The wheel contains it as `aiperf/conf`, because a
package named `conf` could collide with a conf.py of the user. pyproject.toml cannot do both, so this file names the packages.
"""

import re
import tomllib
from pathlib import Path

from setuptools import find_packages, setup

PACKAGES = ("aiperf", "cluster", "morphism", "searchers")
HOMEPAGE = tomllib.loads(Path("pyproject.toml").read_text())["project"]["urls"]["Homepage"]


def absolute(link: re.Match[str]) -> str:
    """A package index shows README.md without the files beside it."""
    return f"{link[1]}{HOMEPAGE}/{'raw' if link[1].startswith('!') else 'blob'}/main/{link[2]}"


README = re.sub(r"(!?\[[^\]]*\]\()(?!https?:|#)([^)]+)", absolute, Path("README.md").read_text("utf-8"))

setup(
    packages=[*find_packages(include=[each for name in PACKAGES for each in (name, f"{name}.*")]), "aiperf.conf"],
    package_dir={"aiperf.conf": "conf"},
    long_description=README,
    long_description_content_type="text/markdown",
)
