"""Many listeners in one process, cheap enough to share a machine with the server that they measure."""
