"""The report: one page on one or several runs, side by side. `stories`, then `measuring`, `sections` and `writing`."""
