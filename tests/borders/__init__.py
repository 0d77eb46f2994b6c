"""Borders: outputs and files of other programs, from public reports."""
