"""Data sets, one file each, with the interface `set_module.SetModule`. Described without torch."""
