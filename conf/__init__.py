"""The choices of the command line, as YAML: a folder a group, a file a choice. An installed aiperf finds them here."""
