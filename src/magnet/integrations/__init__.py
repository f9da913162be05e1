"""Magnet in the training loops of other libraries. Each module needs its library, and is imported only when used."""
