"""The explorer: one page on which to look at what one or more runs learnt of the same data."""
