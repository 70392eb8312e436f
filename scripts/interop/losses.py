"""Compares the losses of tapehead/losses.h and their gradients with sentence-transformers and torch, in float64."""

import common
import numpy as np
import torch
from sentence_transformers.sentence_transformer import losses as theirs
from torch.nn import functional as F

LIMIT = 1e-11
OF_LOGITS = ("binary", "binary_weighted", "weighted", "smooth")


class Nothing(torch.nn.Module):
    """In place of a model: the losses get embeddings."""


def loss_functions(t):
    a, b, n = t["a"], t["b"], t["negatives"]
    model = Nothing()
    symmetric = theirs.MultipleNegativesRankingLoss(
        model, scale=30, directions=("query_to_doc", "doc_to_query"), partition_mode="per_direction")
    cosine = theirs.TripletDistanceMetric.COSINE
    of_pairs = {
        "cosent": (theirs.CoSENTLoss(model), [a, b]),
        "ranking": (theirs.MultipleNegativesRankingLoss(model), [a, b]),
        "hard": (theirs.MultipleNegativesRankingLoss(model), [a, b, n]),
        "symmetric": (symmetric, [a, b, n]),
        "triplet": (theirs.TripletLoss(model), [a, b, n]),
        "triplet_cosine": (theirs.TripletLoss(model, distance_metric=cosine, triplet_margin=0.25), [a, b, n]),
    }
    results = {name: loss.compute_loss_from_embeddings(of, t["targets"]) for name, (loss, of) in of_pairs.items()}
    logits, several, classes, weights = t["logits"], t["several"], t["classes"], t["weights"]
    return results | {
        "cosine": F.mse_loss(torch.cosine_similarity(a, b), t["targets"]),
        "binary": F.binary_cross_entropy_with_logits(logits, several),
        "binary_weighted": F.binary_cross_entropy_with_logits(logits, several, pos_weight=weights),
        "weighted": F.cross_entropy(logits, classes, weights),
        "smooth": F.cross_entropy(logits, classes, weights, label_smoothing=0.2, ignore_index=1),
    }


def operands(seed):
    random = np.random.default_rng(seed)
    count, width, classes = int(random.integers(2, 40)), int(random.integers(1, 50)), int(random.integers(2, 9))
    a = random.normal(size=(count, width))
    return {
        "a": a,
        "b": a + random.normal(size=(count, width)),
        "negatives": random.normal(size=(count, width)),
        "targets": np.round(random.uniform(size=count), 1),  # with ties
        "logits": random.normal(size=(count, classes)) * (100 if seed % 3 == 0 else 3),
        "classes": np.concatenate(([0], random.integers(classes, size=count - 1))),
        "several": random.integers(2, size=(count, classes)).astype(float),
        "weights": random.uniform(0.1, 5, size=classes),
    }


def compare(c):
    for seed in range(30):
        inputs = operands(seed)
        ours = c.program("losses", inputs=inputs)
        tensors = {name: torch.tensor(value) for name, value in inputs.items()}
        tensors["a"].requires_grad_(True)
        tensors["logits"].requires_grad_(True)
        for name, loss in loss_functions(tensors).items():
            of = tensors["logits" if name in OF_LOGITS else "a"]
            gradient = torch.autograd.grad(loss, of)[0].numpy()
            loss = loss.item()
            # a loss is a difference of numbers up to its scale, so small losses and gradients have absolute errors
            c.check(f"{name}: loss", abs(ours[name] - loss) <= LIMIT * (1 + loss), seed)
            error = np.abs(ours[f"gradient.{name}"] - gradient).max()
            c.check(f"{name}: gradient", error <= LIMIT * (1 + np.abs(gradient).max()), seed)


common.main(compare)
