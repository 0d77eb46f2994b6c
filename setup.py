"""Which packages the wheel holds; all else stands in pyproject.toml.

The configuration lies beside the packages in a checkout, where people edit it, and travels within `aiperf` as `aiperf/conf`: a
package called `conf` would meet the conf.py or conf/ of whoever installs it. pyproject.toml can find packages or name them,
and here one is to be named beside those that are found.
"""

from setuptools import find_packages, setup

PACKAGES = ("aiperf", "cluster", "morphism", "searchers")

setup(
    packages=[*find_packages(include=[each for name in PACKAGES for each in (name, f"{name}.*")]), "aiperf.conf"],
    package_dir={"aiperf.conf": "conf"},
)
