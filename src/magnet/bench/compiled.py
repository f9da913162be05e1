"""`torch.compile` of the loss and of a whole step against eager, and the error of bfloat16."""

import os
from collections.abc import Callable

# Some virtual processors announce matrix units that they do not have. Set before the first matrix product.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import torch
from torch import Tensor, nn

from magnet.backbones import build
from magnet.bench.loss import active_batch
from magnet.bench.measurement import Measurement, compare_times
from magnet.objective import magnet_loss

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def measure(progress: Callable[[str], None]) -> list[Measurement]:
    """Time, then error."""
    found = []
    representations, labels = active_batch(12)
    progress("compiling the loss")
    found.append(
        compare_times(
            forward_and_backward(torch.compile(loss, fullgraph=True), representations, labels),
            forward_and_backward(loss, representations, labels),
            repeats=11, calls=50, warm_up=2,
        ).measurement("loss", "M = 12, D = 4, d = 1024, forward and backward, compiled, one graph", "eager")
    )  # fmt: skip
    for name, shape in (("mlp", (1280,)), ("convnet", (3, 28, 28))):
        progress(f"compiling a step of the {name}")
        network = build(name, example_shape=shape, dropout=0.0)
        inputs = torch.randn(48, *shape, generator=torch.Generator().manual_seed(0))
        step = step_of(network)
        found.append(
            compare_times(
                forward_and_backward(torch.compile(step, fullgraph=True), inputs, labels),
                forward_and_backward(step, inputs, labels),
                repeats=7, calls=5,
            ).measurement(f"step of the {name}", "network, loss and backward, batch 48, compiled, one graph", "eager")
        )  # fmt: skip
    progress("bfloat16")
    return [*found, *half_precision()]


def loss(representations: Tensor, clusters: Tensor, labels: Tensor) -> Tensor:
    """The mean loss of a batch."""
    return magnet_loss(representations, clusters, labels).loss


def step_of(network: nn.Module) -> Loss:
    """The loss of a batch as a function of the network's inputs."""
    return lambda inputs, clusters, labels: magnet_loss(network(inputs), clusters, labels).loss


def forward_and_backward(function: Loss, inputs: Tensor, labels: Tensor) -> Callable[[], None]:
    """A call of the function and of its gradient."""
    return lambda: function(inputs, labels, labels).backward()


def half_precision() -> list[Measurement]:
    """The error of loss and gradient under bfloat16 autocast, relative to float64, beside that of float32."""
    network = build("mlp", example_shape=(1280,), dropout=0.0)
    labels = torch.arange(12).repeat_interleave(4)
    errors: dict[str, list[float]] = {"loss, bfloat16": [], "gradient, bfloat16": [], "loss": [], "gradient": []}
    for seed in range(5):
        source = torch.Generator().manual_seed(seed)
        inputs = torch.randn(12, 1280, generator=source)[labels] + 2 * torch.randn(48, 1280, generator=source)
        exact = value_and_gradient(network.double(), inputs.double(), labels)
        network.float()
        for name, half in (("", False), (", bfloat16", True)):
            result = value_and_gradient(network, inputs, labels, half)
            for what, found, true in zip(("loss", "gradient"), result, exact, strict=True):
                errors[what + name].append(float((found.double() - true).norm() / true.norm()))
    return [
        Measurement.of(
            f"error of the {name}" if "bfloat16" in name else f"error of the {name}, float32",
            "mlp, batch 48, relative to float64", f"{sorted(values)[2]:.1e}", "float64", values,
        )
        for name, values in errors.items()
    ]  # fmt: skip


def value_and_gradient(network: nn.Module, inputs: Tensor, labels: Tensor, half: bool = False) -> tuple[Tensor, Tensor]:
    """The loss () and the gradients of all parameters, end to end."""
    network.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
        output = magnet_loss(network(inputs), labels, labels).loss
    output.backward()
    return output.detach(), torch.cat([p.grad.flatten() for p in network.parameters() if p.grad is not None])
