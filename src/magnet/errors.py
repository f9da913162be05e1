"""The error that a person can act on."""


class UserError(ValueError):
    """Something given by the user is wrong: says what was found, what was expected and what to do.

    The command line prints its message in one line, without a traceback.
    """


class RangeError(UserError):
    """Representations are not finite, or their squares would overflow or vanish."""
