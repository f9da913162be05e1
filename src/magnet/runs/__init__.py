"""Trained runs in use: calibrated by held-out examples, and evaluated."""
