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
    return torch.arange(shape[-2])[:, None] + (shape[-1] - shape[-2] if causal == "bottom right" else 0)


def visible_pairs(shape, valid_lengths, keep, additive, positions, causal, window, documents):
    """Which pairs of a query and a key a mask leaves visible, for scores of this shape (.., T, S)."""
    key = torch.arange(shape[-1])
    query = positions_of(shape, positions, causal)
    visible = torch.ones(shape, dtype=torch.bool)
    if causal:
        visible = visible & (key <= query)
    if window and window[0] >= 0:
        visible = visible & (key >= query - window[0])
    if window and window[1] >= 0:
        visible = visible & (key <= query + window[1])
    if documents:  # valid_lengths has the number of each token's document
        begins = valid_lengths != torch.roll(valid_lengths, 1, -1)
        document = begins.cumsum(-1)
        visible = visible & (over_scores(document, len(shape), False) == over_keys(document, len(shape)))
    elif valid_lengths is not None:
        visible = visible & (key < over_scores(valid_lengths, len(shape), True))
    if keep is not None:
        visible = visible & keep
    if additive is not None:
        visible = visible & (additive != -math.inf)
    return visible


def softmax_of_visible(z, visible):
    """Softmax over the last axis and its log-sum-exp. A masked pair gets 0, and so does a row without visible keys."""
    z = torch.where(visible, z, -math.inf)
    largest = z.detach().amax(-1, keepdim=True) if z.shape[-1] else z.new_zeros((*z.shape[:-1], 1))
    largest = torch.where(largest == -math.inf, 0, largest)
    e = torch.exp(torch.where(visible, z - largest, -math.inf))
    total = e.sum(-1, keepdim=True)
    some = visible.any(-1, keepdim=True)
    total = torch.where(some, total, 1)
    return e / total, torch.where(some, largest + torch.log(total), -math.inf)[..., 0]


def counted_rows(targets, ignore_index):
    return torch.ones_like(targets, dtype=torch.bool) if ignore_index is None else targets != ignore_index


def th_add(a, b):
    return a + b


def th_sub(a, b):
    return a - b


def th_mul(a, b):
    return a * b


def th_div(a, b):
    return a / b


def th_pow(a, b):
    return torch.pow(a, b)


def th_maximum(a, b):
    return torch.maximum(a, b)


def th_minimum(a, b):
    return torch.minimum(a, b)


def th_where(condition, a, b):
    return torch.where(condition, a, b)


def th_neg(x):
    return -x


def th_scale(x, factor):
    return x * factor


def th_add_scalar(x, number):
    return x + number


def th_pow_scalar(x, exponent):
    return torch.pow(x, exponent)


def th_exp(x):
    return torch.exp(x)


def th_log(x):
    return torch.log(x)


def th_sqrt(x):
    return torch.sqrt(x)


def th_rsqrt(x):
    return torch.rsqrt(x)


def th_sin(x):
    return torch.sin(x)


def th_cos(x):
    return torch.cos(x)


def th_abs(x):
    return torch.abs(x)


def th_tanh(x):
    return torch.tanh(x)


def th_sigmoid(x):
    return torch.sigmoid(x)


def th_softplus(x):
    return torch.nn.functional.softplus(x, threshold=1e9)


def th_relu(x):
    return torch.relu(x)


def th_relu_squared(x):
    return torch.relu(x).square()


def th_gelu(x):
    return torch.nn.functional.gelu(x)


def th_gelu_tanh(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


def th_silu(x):
    return torch.nn.functional.silu(x)


def th_clamp(x, low, high):
    return torch.clamp(x, low, high)


def th_cast(x, dtype):
    """Floating numbers are float64 in this script, whatever their type is in the library."""
    return x if dtype.startswith("float") and x.is_floating_point() else x.to(getattr(torch, dtype))


def th_dropout(x, p, kept):
    return torch.where(kept, x / (1 - p), 0)


def th_dropout_residual(x, residual, p, kept):
    return residual + torch.where(kept, x / (1 - p), 0)


def th_sum(x, axes, keep_axes):
    return torch.sum(x, axes, keepdim=keep_axes)


def th_mean(x, axes, keep_axes):
    return torch.mean(x, axes, keepdim=keep_axes)


def th_variance(x, axes, keep_axes, correction):
    n = math.prod(x.shape[i] for i in axes)
    return ((x - x.mean(axes, keepdim=True)) ** 2).sum(axes, keepdim=keep_axes) / torch.tensor(float(n - correction))


def th_max(x, axes, keep_axes):
    return torch.amax(x, axes, keepdim=keep_axes)


def th_log_sum_exp(x, axes, keep_axes):
    return torch.logsumexp(x, axes, keepdim=keep_axes) if axes else x


def th_softmax(x, axis):
    return torch.softmax(x, axis)


def th_log_softmax(x, axis):
    return torch.log_softmax(x, axis)


def th_layer_norm(x, weight, bias, eps):
    """Returns y, and for each row its mean m and r = 1 / sqrt(variance + eps)."""
    y = torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)
    m = x.mean(-1, keepdim=True)
    r = torch.rsqrt(((x - m) ** 2).mean(-1, keepdim=True) + eps)
    return y, torch.cat([m, r], -1)


def th_rms_norm(x, weight, bias, eps):
    """Returns y, and for each row r = 1 / sqrt(mean(x²) + eps)."""
    r = torch.rsqrt((x * x).mean(-1, keepdim=True) + eps)
    return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps), r


def th_cross_entropy(logits, targets, ignore_index, label_smoothing, normalizer):
    """Returns the loss, and for each counted row its largest logit m and 1 / sum exp(x - m)."""
    counted = counted_rows(targets, ignore_index)
    rows = logits[counted]
    losses = torch.nn.functional.cross_entropy(
        rows, targets[counted].long(), reduction="none", label_smoothing=label_smoothing
    ) if rows.numel() else rows.sum(-1)
    count = counted.sum().item()
    loss = losses.sum() / (normalizer or count) if count else logits.sum() * 0
    largest = logits.amax(-1, keepdim=True)
    saved = torch.cat([largest, 1 / torch.exp(logits - largest).sum(-1, keepdim=True)], -1)
    return loss, torch.where(counted[..., None], saved, 0)


def th_dense_cross_entropy(x, weight, targets, ignore_index, label_smoothing, normalizer):
    return th_cross_entropy(x @ weight.T, targets, ignore_index, label_smoothing, normalizer)


def th_mse(a, b):
    return torch.mean((a - b) ** 2)


def th_matmul(a, b):
    return torch.matmul(a, b)


def th_masked_matmul(a, b, keep, documents, side):
    """The mask hides entries of a (side "left") or of the result."""
    if side == "left":
        return torch.where(visible_entries(a.shape, keep, documents), a, 0) @ b
    y = a @ b
    return torch.where(visible_entries(y.shape, keep, documents), y, 0)


def visible_entries(shape, keep, documents):
    return visible_pairs(shape, documents, keep, None, None, None, None, documents is not None)


def th_dense(x, weight, bias, residual):
    y = torch.nn.functional.linear(x, weight, bias)
    return y if residual is None else y + residual


def th_embedding(table, indices):
    return torch.nn.functional.embedding(indices.long(), table)


def th_gather(x, index, axis):
    return torch.gather(x, axis, index.long())


def th_concat(xs, axis):
    return torch.cat(xs, axis)


def th_stack(xs, axis):
    return torch.stack(xs, axis)


def th_contiguous(x):
    return x.clone()


def th_reshape(x, shape):
    return x.reshape(shape)


def th_transpose(x, order):
    return x.permute(order)


def th_slice(x, axis, start, stop, step):
    return x[(slice(None),) * axis + (slice(start, stop, step),)]


def th_select(x, axis, index):
    return x.select(axis, index)


def th_expand(x, shape):
    return x.expand(shape)


def th_repeat(x, times):
    return torch.tile(x, times)


def th_squeeze(x, axis):
    return x.squeeze(axis)


def th_unsqueeze(x, axis):
    return x.unsqueeze(axis)


def yarn_ramp(base, width, scaling):
    """The pairs between which YaRN (Peng et al. 2023) changes from kept frequencies to scaled ones."""
    length = scaling["original_length"] / (2 * math.pi)
    first = width * math.log(length / scaling["beta_fast"]) / (2 * math.log(base))
    last = width * math.log(length / scaling["beta_slow"]) / (2 * math.log(base))
    if scaling["truncate"]:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, width - 1)
    return first, last + 0.001 if first == last else last


def rotary_frequencies(position, base, width, scaling):
    """The frequencies base^(-2 i / width) of the pairs, scaled. Two kinds use the length of the sequence."""
    pair, kind = torch.arange(width // 2).double(), scaling and scaling["kind"]
    if kind in ("dynamic", "longrope"):
        length = 1 + (position.amax(-1, keepdim=True)[..., None] if position.numel() else position.new_zeros(1, 1))
    if kind == "dynamic":
        excess = (length / scaling["original_length"]).clamp(min=1) - 1
        base = base * (1 + scaling["factor"] * excess) ** (width / (width - 2))
    frequency = base ** (-2 * pair / width)
    if kind == "longrope":
        factors = torch.tensor([scaling["long_factor"], scaling["short_factor"]], dtype=torch.float64)
        return frequency / torch.where(length > scaling["original_length"], factors[0], factors[1])
    if kind in (None, "dynamic"):
        return frequency
    share = 0
    if kind == "llama3":
        rotations = scaling["original_length"] * frequency / (2 * math.pi)
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        share = ((rotations - low) / (high - low)).clamp(0, 1)
    if kind == "yarn":
        first, last = yarn_ramp(base, width, scaling)
        share = 1 - ((pair - first) / (last - first)).clamp(0, 1)
    return share * frequency + (1 - share) * (frequency / scaling["factor"])


def th_rotary(x, positions, base, width, pairing, scaling):
    """Rotates pair i of a row at position p by the angle p base^(-2 i / width)."""
    position = (torch.arange(x.shape[-2]) if positions is None else positions).double()
    if position.ndim == 2:
        position = position.reshape(x.shape[0], *[1] * (x.ndim - 3), x.shape[-2])
    angle = position[..., None] * rotary_frequencies(position, base, width, scaling)
    rotated, rest = x[..., :width], x[..., width:]
    if pairing == "neighbors":
        a, b = rotated[..., 0::2], rotated[..., 1::2]
    else:
        a, b = rotated[..., : width // 2], rotated[..., width // 2 :]
    c = scaling.get("attention_factor", 1) if scaling else 1
    turned = c * (a * angle.cos() - b * angle.sin()), c * (b * angle.cos() + a * angle.sin())
    turned = torch.stack(turned, -1).flatten(-2) if pairing == "neighbors" else torch.cat(turned, -1)
    return torch.cat([turned, rest], -1)


def th_masked_softmax(scores, valid_lengths, keep, additive, positions, causal, window, documents=False):
    visible = visible_pairs(scores.shape, valid_lengths, keep, additive, positions, causal, window, documents)
    return softmax_of_visible(scores if additive is None else scores + additive, visible)[0]


def th_scaled_dot_product_attention(
    q, k, v, valid_lengths, keep, additive, positions, alibi, causal, window, scale, soft_cap, p, kept, documents=False
):
    """Returns O = P V with P = A M and A = softmax(cap(Q Kᵀ scale) + alibi + mask), and the log-sum-exp of each row.

    M is dropout: 0 or 1 / (1 - p)."""
    if q.ndim > 2 and q.shape[-3] != k.shape[-3]:  # each head of k and v serves a group of heads of q
        group = q.shape[-3] // k.shape[-3]
        k, v = k.repeat_interleave(group, -3), v.repeat_interleave(group, -3)
    scores = q @ k.transpose(-1, -2) * scale
    if soft_cap:
        scores = soft_cap * torch.tanh(scores / soft_cap)
    if alibi is not None:
        distance = (torch.arange(scores.shape[-1]) - positions_of(scores.shape, positions, causal)).abs()
        scores = scores - alibi[..., None, None] * distance
    visible = visible_pairs(scores.shape, valid_lengths, keep, additive, positions, causal, window, documents)
    weights, log_sum_exp = softmax_of_visible(scores if additive is None else scores + additive, visible)
    if kept is not None:
        weights = torch.where(kept, weights / (1 - p), 0)
    return weights @ v, log_sum_exp
