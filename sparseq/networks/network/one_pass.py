"""One batch through a PyTorch module: every parameter's part, by recipe or `torch.func.vmap`."""

from __future__ import annotations

import copy
import threading
from typing import Any

import torch
from torch import Tensor, nn

from sparseq.base.errors import ParameterError
from sparseq.networks.network.layers import has_recipe, recipe
from sparseq.networks.network.parts import ExplicitGradient, Part
from sparseq.networks.network.pooled_relu import join_steps


class _HookState(threading.local):
    """The state that hooks keep of the current batch of their thread."""

    def __init__(self) -> None:
        self.inputs: dict[str, Tensor] = {}
        self.outputs: dict[str, Tensor] = {}
        self.versions: dict[str, tuple[int, int]] = {}

    def clear(self) -> None:
        """Delete the state of the batch."""
        for kept in (self.inputs, self.outputs, self.versions):
            kept.clear()


class OnePass:
    """One forward and one backward that stops at activations.

    Args:
        module: All its trainable parameters belong to layers with a recipe, each used once.
        names: The parameters, in order.
        loss: (outputs, targets) -> one loss per record.
    """

    def __init__(self, module: nn.Module, names: list[str], loss: Any) -> None:
        self.module, self.loss = join_steps(module), loss
        self.layers = {
            name: layer
            for name, layer in self.module.named_modules()
            if any(p.requires_grad for p in layer.parameters(recurse=False))
        }
        self.names = set(names)
        for p in module.parameters():
            p.requires_grad_(False)
        self._kept = _HookState()
        for name, layer in self.layers.items():
            layer.register_forward_hook(self._hook(name))

    def _hook(self, name: str) -> Any:
        def hook(_: nn.Module, inputs: tuple[Tensor, ...], out: Tensor) -> Tensor:
            kept = self._kept
            if name in kept.inputs:
                raise ParameterError(f"layer {name!r} is used twice", 'use method="vmap"')
            if not out.requires_grad:
                out = out.detach().requires_grad_()
            kept.inputs[name], kept.outputs[name] = inputs[0].detach(), out
            kept.versions[name] = inputs[0]._version, out._version
            return out

        return hook

    def __call__(self, x: Tensor, y: Tensor, there: Tensor, users: int) -> dict[str, Part]:
        """Return parts by parameter name.

        Args:
            x, y: (users · records, …).
            there: Mask of the records that exist.
            users: Number of users.
        """
        kept = self._kept
        try:
            losses = one_each(self.loss(self.module(x), y), y)
            total = (losses if bool(there.all()) else losses[there]).sum()
            self._check()
            gradients = torch.autograd.grad(total, list(kept.outputs.values()))
            by_name: dict[str, Part] = {}
            for (name, a), g in zip(kept.inputs.items(), gradients, strict=True):
                layer = self.layers[name]
                make = recipe(layer)
                assert make is not None
                prefix = f"{name}." if name else ""
                parts = make(layer, a, g, users)
                by_name |= {prefix + k: v for k, v in parts.items() if prefix + k in self.names}
            return by_name
        finally:
            kept.clear()

    def _check(self) -> None:
        """Refuse a module that overwrites tensors from which the gradient is computed."""
        kept = self._kept
        for name, out in kept.outputs.items():
            if (kept.inputs[name]._version, out._version) != kept.versions[name]:
                raise ParameterError(
                    f"the input or the output of layer {name!r} is changed in place",
                    'write relu instead of relu_, and inplace=False, or use method="vmap"',
                )


def one_each(losses: Tensor, y: Tensor) -> Tensor:
    """Return the losses, if there is one per record.

    Raises:
        ParameterError: There is not; a mean over the batch would scale every user's gradient.
    """
    if losses.shape != y.shape[:1]:
        raise ParameterError(
            f"the loss of {len(y)} records has the shape {tuple(losses.shape)}",
            'it must return one number per record: reduction="none"',
        )
    return losses


def one_pass_fits(module: nn.Module, sample: tuple[Tensor, Tensor]) -> bool:
    """Return True if every trainable parameter is in one layer with a recipe that is used once."""
    layers = [m for m in module.modules() if any(p.requires_grad for p in m.parameters(False))]
    owners = [p for m in layers for p in m.parameters(False) if p.requires_grad]
    if not all(has_recipe(m) for m in layers) or len({id(p) for p in owners}) < len(owners):
        return False
    calls: dict[int, int] = {}
    shapes: list[bool] = []

    def count(layer: nn.Module, inputs: tuple[Any, ...], out: Any) -> None:
        calls[id(layer)] = calls.get(id(layer), 0) + 1
        shapes.append(
            len(inputs) == 1
            and isinstance(inputs[0], Tensor)
            and isinstance(out, Tensor)
            and len(inputs[0]) == len(out) == len(sample[0])
        )

    hooks = [layer.register_forward_hook(count) for layer in layers]
    try:
        with torch.no_grad():
            module(sample[0])
    finally:
        for hook in hooks:
            hook.remove()
    return all(calls.get(id(m)) == 1 for m in layers) and all(shapes)


class PerExamplePass:
    """`torch.func.vmap` over users: for any module that treats each record independently.

    Args: as `OnePass`.
    """

    def __init__(self, module: nn.Module, names: list[str], loss: Any) -> None:
        self.module, self.names, self.loss = module, names, loss
        self._own = threading.local()  # `functional_call` changes the module during the call
        self._gradient = torch.func.vmap(
            torch.func.grad(self._one), in_dims=(None, 0, 0, 0), randomness="error"
        )

    def _one(self, params: dict[str, Tensor], x: Tensor, y: Tensor, there: Tensor) -> Tensor:
        outputs = torch.func.functional_call(self._own.module, params, (x,))
        losses = one_each(self.loss(outputs, y), y)
        return torch.where(there, losses, 0.0).sum()

    def __call__(self, x: Tensor, y: Tensor, there: Tensor, users: int) -> dict[str, Part]:
        """Return parts by parameter name: see `OnePass`."""
        if not hasattr(self._own, "module"):
            self._own.module = copy.deepcopy(self.module)
        params = {n: p.detach() for n, p in self.module.named_parameters() if n in self.names}
        x, y, there = (t.reshape(users, -1, *t.shape[1:]) for t in (x, y, there))
        gradients = self._gradient(params, x, y, there)
        return {
            n: ExplicitGradient(g.detach().reshape(users, -1).contiguous())
            for n, g in gradients.items()
        }
