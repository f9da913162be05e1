"""Models for use: opened from a run, saved as a portable folder (a bundle), exported as an ONNX file."""

from magnet.export.bundle import export_bundle, load
from magnet.export.model import Answers, Found, Model
from magnet.export.onnx import export_onnx

__all__ = ["Answers", "Found", "Model", "export_bundle", "export_onnx", "load"]
