"""Sections of the report of one run, each made by one function from the values of the report."""
