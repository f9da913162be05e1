"""Names in pictures: class and file names are anybody's text."""


def plain(text: str, length: int = 24) -> str:
    """A name as matplotlib shall draw it: one line, shortened in the middle, no character with a meaning."""
    text = "".join(c if c.isprintable() else " " for c in text).strip() or " "
    if len(text) > length:
        head = (length - 1) // 2
        text = f"{text[:head]}…{text[len(text) - (length - 1 - head) :]}"
    text = text.replace("$", r"\$")  # no formula
    return f"\N{ZERO WIDTH SPACE}{text}" if text.startswith("_") else text  # a legend leaves out names with a "_"
