"""Basic operations of programs (BOPs), peaks of processors, and the roofline of programs and networks.

Method: Wang et al., BOPS, Not FLOPS! A New Metric and Roofline Performance Model For Datacenter Computing, 2018.
"""
