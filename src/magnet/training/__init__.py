"""Training: the configuration, the loop, checkpoints, distribution."""
