"""The report: one page on one or several runs, side by side. `findings` reads and measures them, `page` writes."""
