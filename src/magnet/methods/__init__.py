"""The methods: `method_class` finds one by its name."""

from magnet.methods.base import (
    METHODS,
    VARIANTS,
    Batch,
    Discriminant,
    Method,
    MethodLoss,
    Options,
    Setting,
    method_class,
)

__all__ = ["METHODS", "VARIANTS", "Batch", "Discriminant", "Method", "MethodLoss", "Options", "Setting", "method_class"]
