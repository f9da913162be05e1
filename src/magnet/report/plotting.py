"""Matplotlib, when it is there."""

from typing import Any

from magnet.errors import UserError


def pyplot() -> Any:
    """matplotlib.pyplot, drawing to files only."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise UserError("pictures need matplotlib: pip install 'magnet[plots]'") from error
    return plt
