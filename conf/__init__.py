"""The choices of the command line, as YAML: a folder a group, a file a choice. Packaged, so that an installed aiperf finds it."""
