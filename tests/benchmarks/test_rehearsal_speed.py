"""Both parts of a rehearsal stay within their limits, as ratios to plain Python on the same machine."""

import pytest

from aiperf.statistics.interleaved import Ratio
from benchmarks.rehearsal_speed import MOST_OF_A_LINE, MOST_OF_A_PROPOSAL, measured, too_slow


def test_a_line_and_a_proposal_stay_within_their_limits() -> None:
    ratios = measured(workers=128, minutes=5, proposals=20, pairs=6)

    assert list(too_slow(*ratios)) == []


@pytest.mark.parametrize(("line", "proposal", "faults"), [(0.9, 0.9, 0), (1.1, 0.9, 1), (0.9, 1.1, 1), (1.1, 1.1, 2)])
def test_a_ratio_surely_above_its_limit_is_a_fault(line: float, proposal: float, faults: int) -> None:
    def ratio(value: float) -> Ratio:
        return Ratio(value, value, value, (value,), (1.0,))

    assert len(list(too_slow(ratio(line * MOST_OF_A_LINE), ratio(proposal * MOST_OF_A_PROPOSAL)))) == faults
