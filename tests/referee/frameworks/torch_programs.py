"""Programs of PyTorch/XLA: run by its XLA on the CPU as they are, and rewritten.

    torch_programs.py NAME FOLDER      runs one and prints what came of it as JSON; FOLDER gets the dumps of XLA
"""
import json
import os
import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import dumps  # noqa: E402


def attention(torch, device):
    """Gradient of one head of attention, by its three arguments."""
    q, k, v = (torch.randn(4096, 64).to(device).requires_grad_() for _ in range(3))
    loss = ((torch.softmax(q @ k.T / 8.0, -1) @ v) ** 2).sum()
    return torch.autograd.grad(loss, (q, k, v))


def vocabulary(torch, device):
    """Loss over a large vocabulary, and its gradient."""
    hidden, weights = (torch.randn(*shape).to(device).requires_grad_() for shape in ((4096, 64), (64, 8192)))
    labels = torch.randint(8192, (4096,)).to(device)
    loss = torch.nn.functional.cross_entropy(hidden @ weights, labels)
    return loss, *torch.autograd.grad(loss, (hidden, weights))


def pairs(torch, device):
    """Potential between all pairs of points and its forces, with Gaussian weights."""
    points, charges = torch.randn(6000, 3).to(device).requires_grad_(), torch.randn(6000).to(device)
    square = (points ** 2).sum(-1)
    distance = square[:, None] + square[None] - 2 * points @ points.T
    energy = (charges[:, None] * charges[None] * torch.exp(-distance)).sum()
    return energy, *torch.autograd.grad(energy, points)


def transformer(torch, device):
    """A step of training of an encoder layer; new weights come out."""
    layer = torch.nn.TransformerEncoderLayer(128, 8, 512, dropout=0.0, batch_first=True).to(device)
    inputs, targets = (torch.randn(4, 512, 128).to(device) for _ in range(2))
    loss = ((layer(inputs) - targets) ** 2).mean()
    weights = list(layer.parameters())
    return loss, *(weight.detach() - 0.1 * slope for weight, slope in zip(weights, torch.autograd.grad(loss, weights), strict=True))


PROGRAMS = {"attention": attention, "vocabulary": vocabulary, "pairs": pairs, "transformer": transformer}


def main():
    name, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    dumps.into(folder)
    os.environ["PJRT_DEVICE"] = "CPU"
    try:
        import torch
        import torch_xla
    except ImportError as error:
        sys.exit(f"PyTorch/XLA is not here ({error}): pip install torch torch_xla of one version, or torch_parts.py for their CPU parts")
    from torch_xla.core import xla_builder

    from hlo_opt.xla import older_proto
    torch.manual_seed(1)
    outputs = PROGRAMS[name](torch, torch_xla.device())
    # The program that would run now, and the tensors that it would run on, as they stand in its parameters.
    given = torch_xla._XLAC._get_xla_tensors_hlo_proto(list(outputs))
    arguments = torch_xla._XLAC._get_tensors_xla_device_data_node(list(outputs))[1]
    earlier = dumps.listed(folder)
    torch_xla.sync(wait=True)
    plain = [output.detach().cpu().numpy() for output in outputs]
    before = max(dumps.listed(folder) - earlier, key=dumps.of)

    def run(found):
        """The results of the rewritten program by the XLA of PyTorch/XLA."""
        computation = xla_builder.computation_from_module_proto("rewritten", older_proto.numbered(found.proto))
        results = torch_xla._XLAC._xla_user_computation("xla::rewritten", arguments, computation)
        torch_xla.sync(wait=True)
        return [result.cpu().numpy() for result in results]

    print(json.dumps(dumps.compared(folder, torch_xla.__version__, before, plain, given, run)))


if __name__ == "__main__":
    main()
