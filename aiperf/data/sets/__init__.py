"""The data sets, a file each: described without torch, opened, checked; as `set_module.SetModule` says."""
