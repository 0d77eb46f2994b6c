"""Packages of the wheel. All other metadata are in pyproject.toml.

In a checkout the configuration is the folder conf/, where users edit it. The wheel contains it as `aiperf/conf`, because a package
named `conf` could collide with a conf.py of the user. pyproject.toml cannot both find packages and name one, so this file does.
"""

from setuptools import find_packages, setup

PACKAGES = ("aiperf", "cluster", "morphism", "searchers")

setup(
    packages=[*find_packages(include=[each for name in PACKAGES for each in (name, f"{name}.*")]), "aiperf.conf"],
    package_dir={"aiperf.conf": "conf"},
)
