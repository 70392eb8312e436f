"""Times whole training steps of a GPT-2 in PyTorch, with the same model, data and measurement as train_step.c.

Variants: default is usual eager code with nn.Linear, scaled_dot_product_attention and AdamW. tuned has the fused AdamW,
and session.py sets the environment so that malloc keeps freed memory. compiled is tuned with torch.compile.
Precisions: float32; medium lets oneDNN multiply float32 operands as bfloat16, which it does on processors with AMX;
autocast has operands and results of products in bfloat16."""

import torch

import peer
from torch_model import LanguageModel

options, configuration = peer.parse_options(
    "PyTorch", ["default", "tuned", "compiled"], ["float32", "medium", "autocast"]
)
torch.set_num_threads(options.threads)
torch.manual_seed(1)
torch.set_float32_matmul_precision("medium" if options.precision == "medium" else "highest")

model = LanguageModel(configuration)
adam = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1, fused=options.variant != "default" or None)
run = torch.compile(model) if options.variant == "compiled" else model
data = [torch.randint(configuration.vocabulary, (2, configuration.batch, configuration.length)) for _ in range(4)]


def step(i):
    tokens, targets = data[i % 4]
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=options.precision == "autocast"):
        loss = run(tokens, targets)
    adam.zero_grad(set_to_none=True)
    loss.backward()
    adam.step()
    return loss.detach().item


peer.measure(step, options, configuration, peer.torch_build(torch))
