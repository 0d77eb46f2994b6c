"""Power and energy of a run: external meters, EEHPC levels and totals."""
