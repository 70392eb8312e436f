def sum_to(g, x):
    """Sums a gradient over the axes along which x was broadcast."""
    g = g.sum(axis=tuple(range(g.ndim - x.ndim)))
    return g.sum(axis=tuple(i for i in range(x.ndim) if x.shape[i] != g.shape[i]), keepdims=True)


def with_axes(g, x, axes):
    """Gives the gradient of a reduction the reduced axes again, with size 1."""
    return g.reshape([1 if i in axes else n for i, n in enumerate(x.shape)])


def sigmoid(x):
    return np.exp(-np.logaddexp(0, -x))


def swap(x):
    """Exchanges the last two axes."""
    return np.swapaxes(x, -1, -2)


def over_scores(x, ndim, lengths):
    """Gives positions (T) or (B, T), or valid lengths (B) or (B, T), the axes of scores (B, .., T, S)."""
    if x.ndim == 2:
        return x.reshape(x.shape[0], *[1] * (ndim - 3), x.shape[1], 1)
    if x.ndim == 1 and lengths and ndim > 2:
        return x.reshape(x.shape[0], *[1] * (ndim - 1))
    return x[..., None]


def over_keys(x, ndim):
    """Gives numbers (T) or (B, T) the axes of scores (B, .., T, S), along the keys."""
    return x.reshape(x.shape[0], *[1] * (ndim - 2), x.shape[1]) if x.ndim == 2 else x


def positions_of(shape, positions, causal):
    """The position of each query of scores (.., T, S) among the keys."""
    if positions is not None:
        return over_scores(positions, len(shape), False)
    return np.arange(shape[-2])[:, None] + (shape[-1] - shape[-2] if causal == "bottom right" else 0)


def visible_pairs(shape, valid_lengths, keep, additive, positions, causal, window, documents):
    """Which pairs of a query and a key a mask leaves visible, for scores of this shape (.., T, S)."""
    key = np.arange(shape[-1])
    query = positions_of(shape, positions, causal)
    visible = np.ones(shape, bool)
    if causal:
        visible = visible & (key <= query)
    if window and window[0] >= 0:
        visible = visible & (key >= query - window[0])
    if window and window[1] >= 0:
        visible = visible & (key <= query + window[1])
    if documents:  # valid_lengths has the number of each token's document
        begins = valid_lengths != np.roll(valid_lengths, 1, -1)
        document = begins.cumsum(-1)
        visible = visible & (over_scores(document, len(shape), False) == over_keys(document, len(shape)))
    elif valid_lengths is not None:
        visible = visible & (key < over_scores(valid_lengths, len(shape), True))
    if keep is not None:
        visible = visible & keep
    if additive is not None:
        visible = visible & (additive != -np.inf)
    return visible


def softmax_of_visible(z, visible):
    """Softmax over the last axis and its log-sum-exp. A masked pair gets 0, and so does a row without visible keys."""
    z = np.where(visible, z, -np.inf)
    largest = z.max(-1, keepdims=True, initial=-np.inf)
    largest = np.where(largest == -np.inf, 0, largest)
    e = np.where(visible, np.exp(z - largest), 0)
    total = e.sum(-1, keepdims=True)
    some = visible.any(-1, keepdims=True)
    return e / np.where(some, total, 1), np.where(some, largest + np.log(total), -np.inf)[..., 0]


def counted_rows(targets, ignore_index):
    return np.ones(targets.shape, bool) if ignore_index is None else targets != ignore_index


def elements_of(index, axis):
    """The elements that gather takes, as an index of NumPy."""
    at = list(np.indices(index.shape, sparse=True))
    at[axis] = index
    return tuple(at)


def th_add(a, b):
    return a + b


def th_add_gradient(dy, a, b):
    return sum_to(dy, a), sum_to(dy, b)


def th_sub(a, b):
    return a - b


def th_sub_gradient(dy, a, b):
    return sum_to(dy, a), sum_to(-dy, b)


def th_mul(a, b):
    return a * b


def th_mul_gradient(dy, a, b):
    return sum_to(dy * b, a), sum_to(dy * a, b)


def th_div(a, b):
    return a / b


def th_div_gradient(dy, a, b):
    return sum_to(dy / b, a), sum_to(-dy * a / b**2, b)


def th_pow(a, b):
    return np.power(a, b)


def th_pow_gradient(dy, a, b):
    da = np.where(b == 0, 0, dy * b * np.power(a, b - 1))
    db = np.where((a == 0) & (b >= 0), 0, dy * np.power(a, b) * np.log(a))
    return sum_to(da, a), sum_to(db, b)


def th_maximum(a, b):
    return np.maximum(a, b)


def th_maximum_gradient(dy, a, b):
    half = dy * (a == b) / 2
    return sum_to(dy * (a > b) + half, a), sum_to(dy * (b > a) + half, b)


def th_minimum(a, b):
    return np.minimum(a, b)


def th_minimum_gradient(dy, a, b):
    half = dy * (a == b) / 2
    return sum_to(dy * (a < b) + half, a), sum_to(dy * (b < a) + half, b)


def th_where(condition, a, b):
    return np.where(condition, a, b)


def th_where_gradient(dy, condition, a, b):
    return None, sum_to(np.where(condition, dy, 0), a), sum_to(np.where(condition, 0, dy), b)


def th_neg(x):
    return -x


def th_neg_gradient(dy, x):
    return -dy


def th_scale(x, factor):
    return factor * x


def th_scale_gradient(dy, x, factor):
    return factor * dy


def th_add_scalar(x, number):
    return x + number


def th_add_scalar_gradient(dy, x, number):
    return dy


def th_pow_scalar(x, exponent):
    return np.power(x, exponent)


def th_pow_scalar_gradient(dy, x, exponent):
    return dy * exponent * np.power(x, exponent - 1) if exponent else 0 * dy


def th_exp(x):
    return np.exp(x)


def th_exp_gradient(dy, x):
    return dy * np.exp(x)


def th_log(x):
    return np.log(x)


def th_log_gradient(dy, x):
    return dy / x


def th_sqrt(x):
    return np.sqrt(x)


def th_sqrt_gradient(dy, x):
    return dy / (2 * np.sqrt(x))


def th_rsqrt(x):
    return 1 / np.sqrt(x)


def th_rsqrt_gradient(dy, x):
    return -dy / (2 * x * np.sqrt(x))


def th_sin(x):
    return np.sin(x)


def th_sin_gradient(dy, x):
    return dy * np.cos(x)


def th_cos(x):
    return np.cos(x)


def th_cos_gradient(dy, x):
    return -dy * np.sin(x)


def th_abs(x):
    return np.abs(x)


def th_abs_gradient(dy, x):
    return dy * np.sign(x)


def th_tanh(x):
    return np.tanh(x)


def th_tanh_gradient(dy, x):
    return dy * (1 - np.tanh(x) ** 2)


def th_sigmoid(x):
    return sigmoid(x)


def th_sigmoid_gradient(dy, x):
    return dy * sigmoid(x) * sigmoid(-x)


def th_softplus(x):
    return np.logaddexp(0, x)


def th_softplus_gradient(dy, x):
    return dy * sigmoid(x)


def th_relu(x):
    return np.maximum(x, 0)


def th_relu_gradient(dy, x):
    return np.where(x > 0, dy, 0)


def th_relu_squared(x):
    return np.maximum(x, 0) ** 2


def th_relu_squared_gradient(dy, x):
    return dy * 2 * np.maximum(x, 0)


def normal_distribution(x):
    """Φ(x), the distribution function of the standard normal distribution."""
    return (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2))) / 2


def th_gelu(x):
    return x * normal_distribution(x)


def th_gelu_gradient(dy, x):
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return dy * (normal_distribution(x) + x * density)


def th_gelu_tanh(x):
    u = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    return x / 2 * (1 + np.tanh(u))


def th_gelu_tanh_gradient(dy, x):
    u = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    du = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x**2)
    return dy * ((1 + np.tanh(u)) / 2 + x / 2 * (1 - np.tanh(u) ** 2) * du)


def th_silu(x):
    return x * sigmoid(x)


def th_silu_gradient(dy, x):
    return dy * sigmoid(x) * (1 + x * sigmoid(-x))


def th_clamp(x, low, high):
    return np.clip(x, low, high)


def th_clamp_gradient(dy, x, low, high):
    return np.where((low <= x) & (x <= high), dy, 0)


def th_cast(x, dtype):
    """Floating numbers are float64 in this script, whatever their type is in the library."""
    return x if dtype.startswith("float") and x.dtype == np.float64 else x.astype(dtype)


def th_cast_gradient(dy, x, dtype):
    return dy


def th_dropout(x, p, kept):
    return np.where(kept, x / (1 - p), 0)


def th_dropout_gradient(dy, x, p, kept):
    return np.where(kept, dy / (1 - p), 0)


def th_dropout_residual(x, residual, p, kept):
    return residual + np.where(kept, x / (1 - p), 0)


def th_dropout_residual_gradient(dy, x, residual, p, kept):
    return np.where(kept, dy / (1 - p), 0), dy


def th_sum(x, axes, keep_axes):
    return np.sum(x, axis=axes, keepdims=keep_axes)


def th_sum_gradient(dy, x, axes, keep_axes):
    return np.broadcast_to(with_axes(dy, x, axes), x.shape)


def th_mean(x, axes, keep_axes):
    return np.mean(x, axis=axes, keepdims=keep_axes)


def th_mean_gradient(dy, x, axes, keep_axes):
    n = math.prod(x.shape[i] for i in axes)
    return np.broadcast_to(with_axes(dy, x, axes), x.shape) / n


def th_variance(x, axes, keep_axes, correction):
    n = math.prod(x.shape[i] for i in axes)
    centered = x - x.mean(axis=axes, keepdims=True)
    return (centered**2).sum(axis=axes, keepdims=keep_axes) / np.float64(n - correction)


def th_variance_gradient(dy, x, axes, keep_axes, correction):
    n = math.prod(x.shape[i] for i in axes)
    return with_axes(dy, x, axes) * 2 * (x - x.mean(axis=axes, keepdims=True)) / np.float64(n - correction)


def th_max(x, axes, keep_axes):
    return np.max(x, axis=axes, keepdims=keep_axes)


def th_max_gradient(dy, x, axes, keep_axes):
    largest = x == np.max(x, axis=axes, keepdims=True)
    return largest * with_axes(dy, x, axes) / largest.sum(axis=axes, keepdims=True)


def th_log_sum_exp(x, axes, keep_axes):
    return log_sum_exp(x, axes, keep_axes)


def log_sum_exp(x, axes, keep_axes):
    largest = x.max(axis=axes, keepdims=True, initial=-np.inf)
    largest = np.where(np.isfinite(largest), largest, 0)
    y = largest + np.log(np.exp(x - largest).sum(axis=axes, keepdims=True))
    return y if keep_axes else y.squeeze(axes)


def th_log_sum_exp_gradient(dy, x, axes, keep_axes):
    y = log_sum_exp(x, axes, True)
    return with_axes(dy, x, axes) * np.where(y == -np.inf, 0, np.exp(x - y))


def th_softmax(x, axis):
    return np.exp(x - log_sum_exp(x, (axis,), True))


def th_softmax_gradient(dy, x, axis):
    y = th_softmax(x, axis)
    return y * (dy - (dy * y).sum(axis=axis, keepdims=True))


def th_log_softmax(x, axis):
    return x - log_sum_exp(x, (axis,), True)


def th_log_softmax_gradient(dy, x, axis):
    y = th_log_softmax(x, axis)
    return dy - np.exp(y) * dy.sum(axis=axis, keepdims=True)


def normalized(x, eps):
    """h = (x - m) r with the mean m of a row and r = 1 / sqrt(variance + eps)."""
    m = x.mean(axis=-1, keepdims=True)
    r = 1 / np.sqrt(((x - m) ** 2).mean(axis=-1, keepdims=True) + eps)
    return (x - m) * r, m, r


def over_rows(g, x):
    """Sums over all rows: over every axis except the last."""
    return g.reshape(-1, x.shape[-1]).sum(axis=0)


def th_layer_norm(x, weight, bias, eps):
    """Returns y, and for each row its mean m and r = 1 / sqrt(variance + eps)."""
    h, m, r = normalized(x, eps)
    y = h if weight is None else h * weight
    return y if bias is None else y + bias, np.concatenate([m, r], axis=-1)


def th_layer_norm_gradient(dy, x, weight, bias, eps):
    h, _, r = normalized(x, eps)
    g = dy if weight is None else dy * weight
    dx = r * (g - g.mean(axis=-1, keepdims=True) - h * (g * h).mean(axis=-1, keepdims=True))
    return dx, over_rows(dy * h, x), over_rows(dy, x)


def th_rms_norm(x, weight, bias, eps):
    """Returns y, and for each row r = 1 / sqrt(mean(x²) + eps)."""
    r = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)
    return x * r if weight is None else x * r * weight, r


def th_rms_norm_gradient(dy, x, weight, bias, eps):
    r = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)
    h = x * r
    g = dy if weight is None else dy * weight
    return r * (g - h * (g * h).mean(axis=-1, keepdims=True)), over_rows(dy * h, x), None


def target_shares(logits, targets, ignore_index, label_smoothing):
    """The share of each class in the target of a row: 1 - s at the target, and s / V for all V classes."""
    classes = logits.shape[-1]
    counted = counted_rows(targets, ignore_index)
    at_target = np.arange(classes) == targets[..., None]
    return counted, (1 - label_smoothing) * at_target + label_smoothing / classes


def th_cross_entropy(logits, targets, ignore_index, label_smoothing, normalizer):
    """Returns the loss, and for each counted row its largest logit m and 1 / sum exp(x - m)."""
    counted, shares = target_shares(logits, targets, ignore_index, label_smoothing)
    losses = -(shares * th_log_softmax(logits, logits.ndim - 1)).sum(axis=-1)
    n = normalizer or counted.sum()
    loss = np.where(counted, losses, 0).sum() / n if counted.any() else np.float64(0)
    largest = logits.max(axis=-1, keepdims=True)
    saved = np.concatenate([largest, 1 / np.exp(logits - largest).sum(axis=-1, keepdims=True)], axis=-1)
    return loss, np.where(counted[..., None], saved, 0)


def th_cross_entropy_gradient(dloss, logits, targets, ignore_index, label_smoothing, normalizer):
    counted, shares = target_shares(logits, targets, ignore_index, label_smoothing)
    n = normalizer or np.maximum(counted.sum(), 1)
    dx = dloss / n * (th_softmax(logits, logits.ndim - 1) - shares)
    return np.where(counted[..., None], dx, 0), None


def th_dense_cross_entropy(x, weight, targets, ignore_index, label_smoothing, normalizer):
    return th_cross_entropy(x @ weight.T, targets, ignore_index, label_smoothing, normalizer)


def th_dense_cross_entropy_gradient(dloss, x, weight, targets, ignore_index, label_smoothing, normalizer):
    dz, _ = th_cross_entropy_gradient(dloss, x @ weight.T, targets, ignore_index, label_smoothing, normalizer)
    dx, dweight, _, _ = th_dense_gradient(dz, x, weight, None, None)
    return dx, dweight, None


def th_mse(a, b):
    return np.mean((a - b) ** 2)


def th_mse_gradient(dloss, a, b):
    d = dloss * 2 * (a - b) / (a - b).size
    return sum_to(d, a), sum_to(-d, b)


def th_matmul(a, b):
    return np.matmul(a, b)


def th_matmul_gradient(dy, a, b):
    row = a[None, :] if a.ndim == 1 else a
    column = b[:, None] if b.ndim == 1 else b
    if b.ndim == 1:
        dy = dy[..., None]
    if a.ndim == 1:
        dy = dy[..., None, :]
    da, db = dy @ swap(column), swap(row) @ dy
    return sum_to(da, row).reshape(a.shape), sum_to(db, column).reshape(b.shape)


def th_masked_matmul(a, b, keep, documents, side):
    """The mask hides entries of a (side "left") or of the result."""
    if side == "left":
        return np.where(visible_entries(a.shape, keep, documents), a, 0) @ b
    y = a @ b
    return np.where(visible_entries(y.shape, keep, documents), y, 0)


def visible_entries(shape, keep, documents):
    return visible_pairs(shape, documents, keep, None, None, None, None, documents is not None)


def th_masked_matmul_gradient(dy, a, b, keep, documents, side):
    keep = visible_entries(a.shape if side == "left" else dy.shape, keep, documents)
    if side == "left":
        da, db = np.where(keep, dy @ swap(b), 0), swap(np.where(keep, a, 0)) @ dy
    else:
        dy = np.where(keep, dy, 0)
        da, db = dy @ swap(b), swap(a) @ dy
    return sum_to(da, a), sum_to(db, b), None, None


def th_dense(x, weight, bias, residual):
    y = x @ weight.T
    y = y if bias is None else y + bias
    return y if residual is None else y + residual


def th_dense_gradient(dy, x, weight, bias, residual):
    rows = dy.reshape(-1, weight.shape[0])
    inputs = np.broadcast_to(x, dy.shape[:-1] + x.shape[-1:]).reshape(len(rows), x.shape[-1])
    return dy @ weight, rows.T @ inputs, rows.sum(axis=0), dy


def th_embedding(table, indices):
    return table[indices]


def th_embedding_gradient(dy, table, indices):
    dtable = np.zeros_like(table)
    np.add.at(dtable, indices, dy)
    return dtable, None


def th_gather(x, index, axis):
    return x[elements_of(index, axis)]


def th_gather_gradient(dy, x, index, axis):
    dx = np.zeros_like(x)
    np.add.at(dx, elements_of(index, axis), dy)
    return dx, None


def th_concat(xs, axis):
    return np.concatenate(xs, axis)


def th_concat_gradient(dy, xs, axis):
    ends = np.cumsum([x.shape[axis] for x in xs])
    return np.split(dy, ends[:-1], axis)


def th_stack(xs, axis):
    return np.stack(xs, axis)


def th_stack_gradient(dy, xs, axis):
    return [dy.take(i, axis) for i in range(len(xs))]


def th_contiguous(x):
    return x.copy()


def th_contiguous_gradient(dy, x):
    return dy


def th_reshape(x, shape):
    return x.reshape(shape)


def th_reshape_gradient(dy, x, shape):
    return dy.reshape(x.shape)


def th_transpose(x, order):
    return x.transpose(order)


def th_transpose_gradient(dy, x, order):
    return dy.transpose(np.argsort(order).tolist())


def th_slice(x, axis, start, stop, step):
    return x[(slice(None),) * axis + (slice(start, stop, step),)]


def th_slice_gradient(dy, x, axis, start, stop, step):
    dx = np.zeros_like(x)
    dx[(slice(None),) * axis + (slice(start, stop, step),)] = dy
    return dx


def th_select(x, axis, index):
    return x.take(index, axis)


def th_select_gradient(dy, x, axis, index):
    dx = np.zeros_like(x)
    dx[(slice(None),) * axis + (index,)] = dy
    return dx


def th_expand(x, shape):
    return np.broadcast_to(x, shape)


def th_expand_gradient(dy, x, shape):
    return sum_to(dy, x)


def th_repeat(x, times):
    return np.tile(x, times)


def th_repeat_gradient(dy, x, times):
    ndim = dy.ndim
    sizes = [1] * (ndim - x.ndim) + list(x.shape)
    times = [1] * (ndim - len(times)) + list(times)
    dx = dy.reshape([n for pair in zip(times, sizes) for n in pair]).sum(axis=tuple(range(0, 2 * ndim, 2)))
    return dx.reshape(x.shape)


def th_squeeze(x, axis):
    return np.squeeze(x, axis)


def th_squeeze_gradient(dy, x, axis):
    return np.expand_dims(dy, axis)


def th_unsqueeze(x, axis):
    return np.expand_dims(x, axis)


def th_unsqueeze_gradient(dy, x, axis):
    return np.squeeze(dy, axis)


def yarn_ramp(base, width, scaling):
    """The pairs between which YaRN (Peng et al. 2023) changes from kept frequencies to scaled ones."""
    turns = np.array([scaling["beta_fast"], scaling["beta_slow"]])
    first, last = width * np.log(scaling["original_length"] / (turns * 2 * math.pi)) / (2 * math.log(base))
    if scaling["truncate"]:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, width - 1)
    return first, last + 0.001 if first == last else last


def rotary_frequencies(position, base, width, scaling):
    """The frequencies base^(-2 i / width) of the pairs, scaled. Two kinds use the length of the sequence."""
    pair, kind = np.arange(width // 2), scaling and scaling["kind"]
    length = 1 + position.max(-1, keepdims=True, initial=-1)[..., None]
    if kind == "dynamic":
        excess = np.maximum(length / scaling["original_length"], 1) - 1
        base = base * (1 + scaling["factor"] * excess) ** (width / (width - 2))
    frequency = base ** (-2 * pair / width)
    if kind == "longrope":
        is_long = length > scaling["original_length"]
        return frequency / np.where(is_long, scaling["long_factor"], scaling["short_factor"])
    if kind in (None, "dynamic"):
        return frequency
    share = 0
    if kind == "llama3":
        rotations = scaling["original_length"] * frequency / (2 * math.pi)
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        share = np.clip((rotations - low) / (high - low), 0, 1)
    if kind == "yarn":
        first, last = yarn_ramp(base, width, scaling)
        share = 1 - np.clip((pair - first) / (last - first), 0, 1)
    return share * frequency + (1 - share) * (frequency / scaling["factor"])


def rotary_angles(x, positions, base, width, scaling):
    """The angle of pair i of a row at position p: p base^(-2 i / width)."""
    position = np.arange(x.shape[-2]) if positions is None else positions
    if position.ndim == 2:
        position = position.reshape(x.shape[0], *[1] * (x.ndim - 3), x.shape[-2])
    return position[..., None] * rotary_frequencies(position, base, width, scaling)


def rotate(x, angle, width, pairing, scaling):
    """Turns each pair (a, b) of a row into c (a cos - b sin, b cos + a sin)."""
    y = x.copy()
    first = slice(0, width, 2) if pairing == "neighbors" else slice(0, width // 2)
    second = slice(1, width, 2) if pairing == "neighbors" else slice(width // 2, width)
    a, b = x[..., first], x[..., second]
    c = scaling.get("attention_factor", 1) if scaling else 1
    y[..., first] = c * (a * np.cos(angle) - b * np.sin(angle))
    y[..., second] = c * (b * np.cos(angle) + a * np.sin(angle))
    return y


def th_rotary(x, positions, base, width, pairing, scaling):
    return rotate(x, rotary_angles(x, positions, base, width, scaling), width, pairing, scaling)


def th_rotary_gradient(dy, x, positions, base, width, pairing, scaling):
    return rotate(dy, -rotary_angles(x, positions, base, width, scaling), width, pairing, scaling), None


def th_masked_softmax(scores, valid_lengths, keep, additive, positions, causal, window, documents=False):
    visible = visible_pairs(scores.shape, valid_lengths, keep, additive, positions, causal, window, documents)
    return softmax_of_visible(scores if additive is None else scores + additive, visible)[0]


def th_masked_softmax_gradient(dy, scores, valid_lengths, keep, additive, positions, causal, window, documents=False):
    y = th_masked_softmax(scores, valid_lengths, keep, additive, positions, causal, window, documents)
    dz = np.where(y == 0, 0, y * (dy - (dy * y).sum(axis=-1, keepdims=True)))
    return dz, None, None, None if additive is None else sum_to(dz, additive), None


def attention_parts(q, k, v, valid_lengths, keep, additive, positions, alibi, causal, window, scale, soft_cap, documents):
    """Returns K and V for each head of Q, X / cap, P, the log-sum-exp, and |key - position|."""
    if q.ndim > 2 and q.shape[-3] != k.shape[-3]:  # each head of k and v serves a group of heads of q
        group = q.shape[-3] // k.shape[-3]
        k, v = np.repeat(k, group, -3), np.repeat(v, group, -3)
    scores = q @ swap(k) * scale
    bent = np.tanh(scores / soft_cap) if soft_cap else np.zeros_like(scores)
    if soft_cap:
        scores = soft_cap * bent
    distance = np.abs(np.arange(k.shape[-2]) - positions_of(scores.shape, positions, causal))
    if alibi is not None:
        scores = scores - alibi[..., None, None] * distance
    visible = visible_pairs(scores.shape, valid_lengths, keep, additive, positions, causal, window, documents)
    weights, log_sum_exp = softmax_of_visible(scores if additive is None else scores + additive, visible)
    return k, v, bent, weights, log_sum_exp, distance


def th_scaled_dot_product_attention(
    q, k, v, valid_lengths, keep, additive, positions, alibi, causal, window, scale, soft_cap, p, kept, documents=False
):
    """Returns O = P V with P = A M and A = softmax(cap(Q Kᵀ scale) + alibi + mask), and the log-sum-exp of each row.

    M is dropout: 0 or 1 / (1 - p)."""
    k, v, _, weights, log_sum_exp, _ = attention_parts(
        q, k, v, valid_lengths, keep, additive, positions, alibi, causal, window, scale, soft_cap, documents
    )
    if kept is not None:
        weights = np.where(kept, weights / (1 - p), 0)
    return weights @ v, log_sum_exp


def th_scaled_dot_product_attention_gradient(
    do, dlse, q, k, v, valid_lengths, keep, additive, positions, alibi, causal, window, scale, soft_cap, p, kept, documents=False
):
    """With X = Q Kᵀ scale, S = cap(X) + alibi + mask, A = softmax(S), P = A M, O = P V:

    dV = Pᵀ dO, dP = dO Vᵀ, dA = dP M, dS = A (dA - rowsum(A dA)) + A dlse, dX = dS (1 - tanh²(X / soft_cap)),
    dQ = dX K scale, dK = dXᵀ Q scale, dmask = dS, dslope = -sum |key - position| dS."""
    keys, values, bent, weights, _, distance = attention_parts(
        q, k, v, valid_lengths, keep, additive, positions, alibi, causal, window, scale, soft_cap, documents
    )
    m = 1 if kept is None else kept / (1 - p)
    do = np.zeros(q.shape[:-1] + v.shape[-1:]) if do is None else do
    dv = swap(weights * m) @ do
    da = do @ swap(values) * m
    ds = weights * (da - (weights * da).sum(axis=-1, keepdims=True))
    if dlse is not None:
        ds = ds + weights * dlse[..., None]
    dx = ds * (1 - bent**2)
    dq, dk = dx @ keys * scale, swap(dx) @ q * scale
    if keys.shape != k.shape:  # sums over the heads of a group
        group = q.shape[-3] // k.shape[-3]
        dk = dk.reshape(*k.shape[:-2], group, *k.shape[-2:]).sum(axis=-3)
        dv = dv.reshape(*v.shape[:-2], group, *v.shape[-2:]).sum(axis=-3)
    dadditive = None if additive is None else sum_to(ds, additive)
    dalibi = None if alibi is None else sum_to(-(distance * ds).sum(axis=(-1, -2)), alibi)
    return dq, dk, dv, None, None, dadditive, None, dalibi
