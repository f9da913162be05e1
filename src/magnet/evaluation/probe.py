"""The linear probe: how well a linear classifier tells classes from fixed representations."""

import torch
from torch import Tensor, nn
from torch.nn import functional


def linear_probe(
    references: Tensor, labels: Tensor, queries: Tensor, *, penalty: float = 1e-3, iterations: int = 100
) -> Tensor:
    """The labels (n,) that multinomial logistic regression gives to queries (n, d).

    Minimises ``mean_i -log softmax_{y_i}(W r_i + b) + penalty / 2 |W|^2`` over references (N, d) with labels (N,), from
    zero, by L-BFGS. Representations are centred and scaled by one number, so that the penalty means the same for all.
    """
    classes, columns = torch.unique(labels, return_inverse=True)
    centre = references.mean(dim=0)
    scale = (references - centre).square().mean().sqrt().clamp_min(torch.finfo(references.dtype).tiny)
    inputs, asked = (references - centre) / scale, (queries - centre) / scale
    head = nn.Linear(references.shape[1], len(classes), dtype=references.dtype, device=references.device)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    optimiser = torch.optim.LBFGS(head.parameters(), max_iter=iterations, line_search_fn="strong_wolfe")

    def objective() -> Tensor:
        optimiser.zero_grad()
        loss = functional.cross_entropy(head(inputs), columns) + penalty / 2 * head.weight.square().sum()
        loss.backward()
        return loss

    optimiser.step(objective)
    with torch.no_grad():
        return classes[head(asked).argmax(dim=1)]
