"""Measurement of the basic operations (BOPs) of programs, peaks of processors, and rooflines of programs and networks.

Method: Wang et al., BOPS, Not FLOPS! A New Metric and Roofline Performance Model For Datacenter Computing, 2018.
"""
