"""Magnet inside other people's training loops. Each module needs its own package, and is imported only when used."""
