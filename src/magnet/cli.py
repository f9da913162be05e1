"""The list of commands. Each is a module of `magnet.commands` with a ``main(arguments)``.

Nothing here imports torch, so that help is printed at once.
"""

import signal
import sys
from collections.abc import Sequence
from importlib import import_module

from magnet import __version__
from magnet.errors import UserError, did_you_mean, visible

COMMANDS = {
    "demo": "softmax, triplet and Magnet on digits, in under two minutes",
    "data": "list the benchmark sets, look at data, download a set",
    "features": "write what a network makes of images: a vector for each",
    "train": "train a representation on labelled images or vectors",
    "evaluate": "errors of a run on its test part or on other data",
    "embed": "write the representations of images or vectors to an .npz",
    "classify": "label, probability and nearest clusters of photos or vectors",
    "search": "the training examples nearest to a photo or vector",
    "verify": "whether two photos or vectors are of the same class",
    "suspects": "the examples whose labels are likely wrong, worst first, as a table",
    "explore": "a page in the browser: map, clusters, modes, suspects, time",
    "export": "one ONNX file or a portable folder of a run",
    "serve": "a run over HTTP: classify, embed, search",
    "report": "one page on several runs: errors, curves, confusions, settings",
    "tune": "random search of the settings, judged on validation data",
    "reproduce": "regenerate a table or figure of the paper on your data",
    "bench": "measure speed and memory against what people would use instead",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 0, 1 for a failure, 2 for wrong input, 130 when interrupted."""
    # Another Ctrl-C while the first is answered, or while the interpreter ends, must not print a traceback.
    own = arguments is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    try:
        code = _run(list(sys.argv[1:] if arguments is None else arguments))
    except (KeyboardInterrupt, RuntimeError) as error:
        stop = error.__cause__ if isinstance(error, RuntimeError) else error  # Python 3.11, while a class is made
        if not isinstance(stop, KeyboardInterrupt):
            raise
        if own:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        return _complain(str(stop) or "interrupted", 130)
    if own:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return code


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0
    if words[0] == "--version":
        print(f"magnet {__version__}")
        return 0
    name, *rest = words
    if name not in COMMANDS:
        return _complain(f"there is no command {name!r}{did_you_mean(name, COMMANDS)} There are: {', '.join(COMMANDS)}")
    try:
        import_module(f"magnet.commands.{name}").main(rest)
    except UserError as error:
        return _complain(str(error))
    except FloatingPointError as error:
        return _complain(str(error), 1)
    except BrokenPipeError:  # the output was closed, as by `| head`
        sys.stderr.close()
        return 0
    except OSError as error:
        named = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
        return _complain(named, 1)
    return 0


def _overview() -> str:
    lines = [f"  {name:<10} {text}" for name, text in COMMANDS.items()]
    return "\n".join(
        [
            "magnet: metric learning with adaptive density discrimination",
            "",
            "usage: magnet COMMAND [OPTIONS]   (COMMAND --help tells more, with examples)",
            "",
            *lines,
            "",
            "example: magnet train --data photos/ --out runs/photos",
        ]
    )


def _complain(text: str, code: int = 2) -> int:
    print(f"magnet: {visible(text)}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
