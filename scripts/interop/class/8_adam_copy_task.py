"""Lesson 8: Adam on two numbers. (The copy task begins with random numbers of the library. test_copy_task.c and
multi_head_attention.py check its parts.)"""

import torch

STEPS, BETAS = 4, (0.9, 0.999)


def numbers():
    c = torch.tensor([10.0, 1])
    theta = torch.ones(2, requires_grad=True)
    adam = torch.optim.Adam([theta], lr=0.1, betas=BETAS)
    rows = []
    for t in range(1, STEPS + 1):
        adam.zero_grad()
        ((c * theta**2).sum() / 2).backward()
        adam.step()
        m, v = adam.state[theta]["exp_avg"], adam.state[theta]["exp_avg_sq"]
        m_hat, v_hat = m / (1 - BETAS[0] ** t), v / (1 - BETAS[1] ** t)
        rows.append(torch.stack([theta.grad, m, v, m_hat, v_hat, theta.detach()]))
    table = torch.stack(rows)  # (steps, 6, 2)
    return {"g": table[..., 0], "and of theta[1]; g": table[..., 1], "theta after the last step": theta}
