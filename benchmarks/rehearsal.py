"""What a simulated cluster costs: a sweep of sizes with its driver time per event, and where one large run's time goes.

python -m benchmarks.rehearsal [key=value …]           the table of sizes, as `python -m aiperf rehearse` has it, in Markdown
python -m benchmarks.rehearsal --profile [key=value …] the functions that one run of the largest size spends its time in
"""

from __future__ import annotations

import cProfile
import io
import os
import platform
import pstats
import sys
from collections.abc import Sequence

from aiperf.conf import RunConf, configure
from aiperf.simulate.rehearse import DEFAULTS, lost, perfect, rehearse, sizes, table
from cluster.conf import SimulatedConf

SHOWN = 25


def main(words: Sequence[str]) -> None:
    """Prints Markdown."""
    is_profile = "--profile" in words
    said = [word for word in words if word != "--profile"]
    named = {word.lstrip("+").partition("=")[0] for word in said}
    conf = configure([word for word in DEFAULTS if word.lstrip("+").partition("=")[0] not in named] + said)
    assert isinstance(conf.cluster, SimulatedConf)
    machine = f"{os.cpu_count()} processors, {platform.machine()}, Python {platform.python_version()}"
    print(f"{machine}; {' '.join(said) or 'defaults'}\n")
    if is_profile:
        profiled(conf, conf.cluster.workers)
        return
    alone = perfect(conf)
    sweep = [rehearse(conf, workers, alone) for workers in sizes(conf.cluster.workers)]
    print(table(sweep))
    print(f"\n{lost(sweep[-1])}")


def profiled(conf: RunConf, workers: int) -> None:
    """One run under cProfile, which makes everything about twice as slow; shares are what it is good for."""
    profiler = cProfile.Profile()
    profiler.enable()
    rehearse(conf, workers, 1.0)
    profiler.disable()
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).sort_stats("tottime").print_stats(SHOWN)
    print(text.getvalue())


if __name__ == "__main__":
    main(sys.argv[1:])
