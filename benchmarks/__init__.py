"""Benchmarks behind the project's statements about speed. Each script prints its table and names the machine."""
