"""Data sets, one file each, with the interface `survey.SetModule`. Described without torch."""
