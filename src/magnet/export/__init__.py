"""Models for use: loaded from a run, kept as a portable folder, written as one ONNX file."""

from magnet.export.answers import Answers, Found
from magnet.export.bundle import export_bundle
from magnet.export.model import Model
from magnet.export.onnx_file import export_onnx
from magnet.export.opening import load

__all__ = ["Answers", "Found", "Model", "export_bundle", "export_onnx", "load"]
