"""Named tensors from a file, without ever executing what is in it."""

import pickle
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from magnet.errors import UserError

_WRAPPERS = ("state_dict", "model_state_dict", "model")  # keys under which training scripts keep weights


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file (by its suffix) or of a tensor-only `.pth`, by name, on the CPU."""
    if not path.is_file():
        raise UserError(f"there is no weights file {path}: give the path of a .safetensors or .pth file")
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise UserError(
            f"{path} is refused: it is not a tensor-only file, and reading anything else could run code "
            "from it; save the weights alone (a state_dict), best as .safetensors"
        ) from error
    except (SafetensorError, RuntimeError, EOFError, ValueError, LookupError, OSError) as error:
        reason = " ".join(str(error).split())[:150]
        raise UserError(f"{path} cannot be read as weights ({reason}): is the file complete?") from error
    for key in _WRAPPERS:
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
    items = content.items() if isinstance(content, Mapping) else ()
    tensors = {str(name): tensor for name, tensor in items if isinstance(tensor, Tensor)}
    if not tensors:
        raise UserError(f"{path} holds no named tensors (found {type(content).__name__}): expected a state_dict")
    return tensors
