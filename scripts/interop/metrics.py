"""Writes the fixture of tests/training/test_metrics.c: random predictions, also with ties and degenerate ones, and the metrics of
scikit-learn, SciPy and seqeval. Each case is a line with its name and sizes, and lines of numbers."""

import warnings

import common
import numpy as np
import scipy.stats
from seqeval.metrics.sequence_labeling import precision_recall_fscore_support
from sklearn import metrics

AVERAGES = ("macro", "micro")


def line(*values):
    return " ".join("nan" if np.isnan(value) else f"{float(value):.15g}" for value in np.ravel(values).tolist()) + "\n"


def scores_of(actual, predicted, labels):
    """Precision, recall and F1: macro, micro, and of each label."""
    rows = [metrics.precision_recall_fscore_support(actual, predicted, average=average, zero_division=0)[:3]
            for average in AVERAGES]
    each = metrics.precision_recall_fscore_support(actual, predicted, labels=labels, zero_division=0)[:3]
    return np.concatenate((np.array(rows, float), np.array(each).T))


def classes(random, count, number, used):
    actual, predicted = random.integers(used, size=count), random.integers(used, size=count)
    matrix = metrics.confusion_matrix(actual, predicted, labels=range(number))
    return (f"classes {count} {number}\n" + line(actual) + line(predicted) + line(matrix)
            + line(metrics.accuracy_score(actual, predicted)) + line(scores_of(actual, predicted, range(number))))


def labels(random, count, number, share):
    actual, predicted = (random.uniform(size=(count, number)) < share for _ in range(2))
    actual[0] = predicted[0] = True  # otherwise scikit-learn leaves a label in the mean
    return f"labels {count} {number}\n" + line(actual) + line(predicted) + line(scores_of(actual, predicted, range(number)))


# The test has the same names. The first label of each type has its counts.
ENTITY_LABELS = ("O", "B-A", "I-A", "E-A", "S-A", "B-B-C", "I-B-C", "E-B-C", "B", "I")
ENTITY_TYPES = {"A": 1, "B-C": 5, "_": 8}


def entities(random, count, outside, used):
    """Sentences are separated by -1. outside: the share of O."""
    tags = np.where(random.uniform(size=(2, count)) < outside, 0, random.integers(used, size=(2, count)))
    same = random.uniform(size=count) < 0.6
    tags[1, same] = tags[0, same]
    tags[0, random.uniform(size=count) < 0.1] = -1
    ends = [-1, *np.flatnonzero(tags[0] < 0), count]
    sentences = [[[ENTITY_LABELS[tag] for tag in side[begin + 1:end]] for begin, end in zip(ends, ends[1:])] for side in tags]
    rows = [precision_recall_fscore_support(*sentences, average=average, zero_division=0)[:3] for average in AVERAGES]
    rows = np.nan_to_num(rows)  # the macro mean of no types
    types = sorted({label[1:].split("-", 1)[-1] or "_" for side in sentences for row in side for label in row if label != "O"})
    each = dict(zip(types, zip(*precision_recall_fscore_support(*sentences, average=None, zero_division=0)[:3])))
    of_label = {label: each.get(name, (0, 0, 0)) for name, label in ENTITY_TYPES.items()}
    return (f"entities {count} {len(ENTITY_LABELS)}\n" + line(tags[0]) + line(tags[1]) + line(rows)
            + line([of_label.get(label, (0, 0, 0)) for label in range(len(ENTITY_LABELS))]))


def numbers(x, y):
    x, y = np.array(x, float), np.array(y, float)
    results = [metric(x, y).statistic for metric in (scipy.stats.pearsonr, scipy.stats.spearmanr)]
    return f"numbers {len(x)} 2\n" + line(x) + line(y) + line(results)


def roc(actual, scores):
    value = metrics.roc_auc_score(actual, scores) if 0 < sum(actual) < len(actual) else np.nan
    return f"roc {len(actual)} 2\n" + line(actual) + line(scores) + line(value)


def ranks(random, queries, candidates, digits):
    """With one relevant candidate for each query, the label ranking average precision is the mean reciprocal rank."""
    relevant = np.eye(candidates)[random.integers(candidates, size=queries)]
    scores = np.round(random.normal(size=(queries, candidates)), digits)
    value = metrics.label_ranking_average_precision_score(relevant, scores)
    return f"ranks {queries} {candidates}\n" + line(relevant) + line(scores) + line(value)


def cases():
    random = np.random.default_rng(3)
    for count, number, used in ((1, 2, 2), (40, 2, 2), (100, 7, 7), (30, 6, 3), (5, 9, 9), (20, 3, 1)):
        yield classes(random, count, number, used)
    for count, number, share in ((20, 4, 0.3), (50, 3, 0.9), (9, 6, 0.05)):
        yield labels(random, count, number, share)
    for digits in (8, 1, 0):
        x = random.normal(size=60)
        yield numbers(np.round(x, digits), np.round(x + random.normal(size=60), digits))
        actual = random.integers(2, size=60)
        yield roc(actual, np.round(random.normal(size=60) + actual, digits))
        yield ranks(random, 12, 9, digits)
    yield numbers([1, 2], [3, 1])
    yield numbers([0.1] * 7, range(7))
    yield numbers([1, 2, 3], [0.3, 0.3, 0.3])
    yield numbers(1e9 + np.arange(9) % 4, np.arange(9) % 5)
    yield numbers([1, np.nan, 2, 3], [1, 2, 3, 4])
    yield roc([1, 1, 1], [1, 2, 3])
    yield roc([0, 1, 1, 0], [0.5, 0.5, 0.5, 0.5])
    yield roc([0, 0, 1, 1], [1, 2, 3, 4])
    for count, outside, used in ((1, 0, 2), (200, 0.6, 3), (400, 0.2, 10), (400, 0.7, 10), (30, 1, 10), (400, 0, 4), (200, 0, 10)):
        yield entities(random, count, outside, used)


def fixtures(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (folder / "cases.txt").write_text("".join(cases()))


def compare(c):
    """The test of the fixture compares."""


common.main(compare, fixtures)
