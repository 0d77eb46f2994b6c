"""List of all kinds of cluster that the option +cluster=KIND can choose."""

from __future__ import annotations

from cluster.hosts import HostsConf
from cluster.kubernetes import KubernetesConf
from cluster.place import ClusterConf
from cluster.ray import RayConf
from cluster.simulated import SimulatedConf
from cluster.slurm import SlurmConf

CLUSTERS: tuple[type[ClusterConf], ...] = (SimulatedConf, SlurmConf, KubernetesConf, HostsConf, RayConf)
"""Configuration classes by kind. conf/cluster/KIND.yaml contains other options that the choice sets."""
