def numbers_of(entry):
    """The numbers of a tensor in row-major order, exactly as the library has them."""
    dtype, shape, data = entry
    if isinstance(data, bytes):
        letter = {"float32": "f", "float64": "d", "int32": "i", "int64": "q", "bool": "?"}[dtype]
        return list(struct.unpack(f"<{math.prod(shape)}{letter}", data))
    return [float(n) if dtype.startswith("float") else int(n) for n in data.split()]


def difference(a, b):
    """The absolute difference. Two NaN are equal, and so are two infinities of the same sign."""
    if a == b or (a != a and b != b):
        return 0.0
    return math.inf if math.isnan(a - b) else abs(a - b)


def largest_of(numbers):
    return max((abs(n) for n in numbers if math.isfinite(n)), default=0.0)


def source_line(name):
    """The line of this script that computes a tensor. Its comment names the module and the line of the program."""
    with open(__file__, encoding="utf-8") as lines:
        return next((line.strip() for line in lines if re.match(rf"    (\w+, )*{name}(, \w+)* = ", line)), "")


def numbers_found(found, entry):
    """The numbers of a result of compute(). A gradient that no operation computes is 0."""
    return [0.0] * len(numbers_of(entry)) if found is None else found.reshape(-1).tolist()


def measure_rounding(usual):
    """How much rounding changes each tensor. compute() runs again with the last places of all its tensors changed."""
    functions = {n: f for n, f in globals().items() if n.startswith("th_") or n in ("given", "leaf")}
    rounding = ({}, {})
    for _ in range(ROUNDED_RUNS):
        for name, function in functions.items():
            globals()[name] = lambda *a, function=function, **k: perturbed(function(*a, **k))
        changed = compute()
        globals().update(functions)
        for entries, before, after, sizes in zip((VALUES, GRADIENTS), usual, changed, rounding):
            for name, entry in entries.items():
                pairs = zip(numbers_found(before.get(name), entry), numbers_found(after.get(name), entry))
                sizes[name] = max(sizes.get(name, 0.0), largest_of([difference(a, b) for a, b in pairs]))
    return rounding


def compare(kind, name, entry, found, rounding):
    """Compares one tensor. Returns the number of its numbers, the worst difference and its limit, and what is wrong."""
    expected, shape = numbers_of(entry), tuple(entry[1])
    if found is not None and tuple(found.shape) != shape:
        return len(expected), math.inf, 0.0, f"{kind} {name}: the shape is {tuple(found.shape)}, not {shape}"
    found = numbers_found(found, entry)
    limit = max(TOLERANCE * largest_of(expected), SAFETY * rounding) if entry[0].startswith("float") else 0.0
    differences = [difference(a, b) for a, b in zip(expected, found)]
    worst = max(differences, default=0.0)
    if worst <= limit:
        return len(expected), worst, limit, ""
    at, index = differences.index(worst), []
    wrong, rest = sum(d > limit for d in differences), at
    for size in reversed(shape):
        rest, i = divmod(rest, size)
        index.insert(0, i)
    problem = (
        f"{kind} {name}: {wrong} of {len(expected)} numbers; worst at {index}: Tapehead has {expected[at]!r}, "
        f"{LIBRARY} {found[at]!r}, allowed is a difference of {limit:.1e}"
    )
    return len(expected), worst, limit, problem


def main():
    results, rounding = compute(), None
    count, problems, worst = 0, [], (0.0, 0.0, 1.0, "nothing")
    # Terms that cancel inside a gradient rule cannot be changed from here. They are at most about as large as the gradients.
    inside = 0.0, UNIT * max((largest_of(numbers_of(e)) for e in GRADIENTS.values()), default=0.0)
    for kind, entries, k in (("value of", VALUES, 0), ("gradient of", GRADIENTS, 1)):
        for name, entry in entries.items():
            found = results[k].get(name)
            n, error, limit, problem = compare(kind, name, entry, found, 0.0)
            if problem and math.isfinite(error):  # wrong, or numbers that cancel?
                rounding = rounding or measure_rounding(results)
                n, error, limit, problem = compare(kind, name, entry, found, max(rounding[k][name], inside[k]))
            count += n
            if error > 0:
                worst = max(worst, (error / limit if limit else math.inf, error, limit, f"{kind} {name}"))
            if problem:
                print("WRONG", problem)
                print("     ", source_line(name))
                problems.append(f"{kind} {name}")
    tensors = f"{len(VALUES)} values and {len(GRADIENTS)} gradients"
    result = f"{len(problems)} of them are wrong" if problems else f"all agree with {LIBRARY}"
    _, error, limit, name = worst
    differences = f"worst difference {error:.1e}, allowed {limit:.1e} ({name})" if error else "no difference"
    print(f"compared {count} numbers of {tensors}: {result}; {differences}")
    if problems:
        print("wrong: " + ", ".join(problems))
    return 1 if problems else 0
