"""What is missing is said with the line that installs it."""

import importlib
import sys

import pytest


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("pml", "pytorch_metric_learning.losses", "pml"),
        ("lightning", "lightning.pytorch", "lightning"),
        ("huggingface", "transformers", "huggingface"),
    ],
)
def test_an_integration_without_its_package_says_how_to_get_it(module, package, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"magnet.integrations.{module}", raising=False)
    with pytest.raises(ImportError, match=rf"pip install 'magnet-loss\[{extra}\]'"):
        importlib.import_module(f"magnet.integrations.{module}")


def test_the_core_imports_none_of_them():
    import subprocess

    words = "import sys, magnet, magnet.methods; magnet.magnet_loss; print([m for m in sys.modules if m in {}])"
    names = ("lightning", "transformers", "pytorch_metric_learning", "accelerate")
    done = subprocess.run([sys.executable, "-c", words.format(names)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
