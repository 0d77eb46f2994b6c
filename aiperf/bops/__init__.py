"""Basic operations (BOPs, Wang et al. 2018) of programs, peaks of processors, and rooflines of programs and networks."""
