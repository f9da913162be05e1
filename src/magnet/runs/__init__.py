"""Trained runs in use: opened, calibrated by held-out examples, and evaluated."""
