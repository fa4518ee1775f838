"""The networks a second time: NumPy in double precision, one node and one head at a time, from docs/learning.md alone.

Parameters come as a dict of arrays by name. A linear map is `NAME.weight` (out, in) and, where it has one, `NAME.bias`.
Observations are those of one robot, with the lattice arrays as they are: there are no buckets and no padding here.
"""

import math

import numpy as np

HEADS, BINS, WINDOW, TOKEN_WIDTH = 4, 36, 13, 64
SLOTS = [(dy, dx) for dy in range(-2, 3) for dx in range(-2, 3)]


def linear(p, name, x):
    y = np.asarray(p[f"{name}.weight"], float) @ x
    return y + p[f"{name}.bias"] if f"{name}.bias" in p else y


def norm(p, name, x):
    scaled = (x - x.mean()) / math.sqrt(x.var() + 1e-5)
    return scaled * p[f"{name}.scale"] + p[f"{name}.offset"]


def relu(x):
    return np.maximum(x, 0.0)


def softmax(x):
    e = np.exp(np.asarray(x) - max(x))
    return e / e.sum()


def look(p, name, query, keys, values, gated):
    """The heads of one query over lists of keys and values; zero if there are none."""
    if not keys:
        return np.zeros(len(query))
    width, heads = len(query) // HEADS, []
    for m in range(HEADS):
        part = slice(m * width, (m + 1) * width)
        weights = softmax([query[part] @ key[part] / math.sqrt(width) for key in keys])
        head = sum(weight * value[part] for weight, value in zip(weights, values, strict=True))
        if gated:
            head = head / (1 + math.exp(-(query @ p[f"{name}.gate"][m])))
        heads.append(head)
    return np.concatenate(heads)


def layer(p, name, xs, neighbours, gated):
    """Eq. 10 for all of a list of vectors; `neighbours[i]` are the indices that i attends to."""
    ys = [norm(p, f"{name}.attention_norm", x) for x in xs]
    queries, keys, values = ([linear(p, f"{name}.attention.{of}", y) for y in ys] for of in ("query", "key", "value"))
    found = []
    for x, query, near in zip(xs, queries, neighbours, strict=True):
        heads = look(p, f"{name}.attention", query, [keys[j] for j in near], [values[j] for j in near], gated)
        x = x + linear(p, f"{name}.attention.output", heads)
        hidden = relu(linear(p, f"{name}.feed_in", norm(p, f"{name}.feed_norm", x)))
        found.append(x + linear(p, f"{name}.feed_out", hidden))
    return found


def kept_sites(mask, here, bucket):
    """The nodes of a bucket in row-major order: all, or the nearest."""
    sites = [site for site in np.ndindex(mask.shape) if mask[site]]
    if len(sites) > bucket:
        nearest = sorted(sites, key=lambda s: (max(abs(s[0] - here[0]), abs(s[1] - here[1])), s))
        sites = sorted(nearest[:bucket])
    return sites


def neighbourhoods(sites, edge):
    index = {site: place for place, site in enumerate(sites)}
    found = []
    for y, x in sites:
        near = [index[y, x]]
        for slot, (dy, dx) in enumerate(SLOTS):
            if edge[slot, y, x] and (y + dy, x + dx) in index and (dy, dx) != (0, 0):
                near.append(index[y + dy, x + dx])
        found.append(near)
    return found


def frontier(p, name, histogram):
    f = np.asarray(histogram, float) / 8
    kernel, bias = p[f"{name}.kernel"], p[f"{name}.bias"]
    flat = []
    for channel in range(8):
        for angle in range(BINS):
            total = sum(kernel[channel, k] * f[(angle + k - WINDOW // 2) % BINS] for k in range(WINDOW))
            flat.append(max(total + bias[channel], 0.0))
    return linear(p, f"{name}.output", np.array(flat))


def encode_graph(p, features, histograms, neighbours):
    """Steps 1 to 4: the embedding of each node."""
    xs = [linear(p, "graph.embed", x) for x in features]
    for number in range(6):
        xs = layer(p, f"graph.layers.{number}", xs, neighbours, gated=True)
    found = []
    for x, histogram in zip(xs, histograms, strict=True):
        both = np.concatenate([norm(p, "graph.norm", x), frontier(p, "graph.frontier", histogram)])
        found.append(linear(p, "graph.join", both))
    return found


def encode_tokens(p, tokens, seen):
    """Step 5: {(teammate, age): tau} of what was seen."""
    found = {}
    for mate in range(len(tokens)):
        ages = [age for age in range(len(tokens[mate])) if seen[mate, age]]
        xs = []
        for age in ages:
            position = np.zeros(TOKEN_WIDTH)
            for k in range(TOKEN_WIDTH // 2):
                angle = age / 10000 ** (2 * k / TOKEN_WIDTH)
                position[2 * k], position[2 * k + 1] = math.sin(angle), math.cos(angle)
            xs.append(linear(p, "tokens.embed", tokens[mate, age]) + position)
        for number in range(2):
            xs = layer(p, f"tokens.layers.{number}", xs, [list(range(len(xs)))] * len(xs), gated=False)
        for age, x in zip(ages, xs, strict=True):
            found[mate, age] = norm(p, "tokens.norm", x)
    return found


def fuse(p, tau, z_node):
    """Step 6, Eq. 11."""
    both = np.concatenate([linear(p, "fusion.token", tau), linear(p, "fusion.node", z_node)])
    return linear(p, "fusion.join", both)


def bearing(observation, site):
    """Where a site lies from the base, turned by the robot's own angle."""
    y, x = site[0] - int(observation.base[0]), site[1] - int(observation.base[1])
    if (y, x) == (0, 0):
        return [0, 0]
    angle = math.atan2(y, x) - 2 * math.pi * int(observation.number) / int(observation.team_size)
    return [math.cos(angle), math.sin(angle)]


def context(p, z_here, observation, identity):
    """Step 7."""
    b = list(observation.budget)
    if identity:
        i, n = int(observation.number), int(observation.team_size)
        b += [math.cos(2 * math.pi * i / n), math.sin(2 * math.pi * i / n), 1 / n]
    return linear(p, "context.join", np.concatenate([z_here, linear(p, "context.budget", np.array(b))]))


def action(p, z_there, sensed, heading):
    """Step 8."""
    theta = np.zeros(BINS)
    for k in range(-(WINDOW // 2), WINDOW // 2 + 1):
        theta[(heading + k) % BINS] = 1
    parts = [z_there, linear(p, "action.sensed", np.asarray(sensed, float)), linear(p, "action.heading", theta)]
    return linear(p, "action.join", np.concatenate(parts))


def actions(p, observation, z):
    """All 75, with `z` a dict by site."""
    y, x = (int(v) for v in observation.site)
    nothing, size = np.zeros(128), len(observation.sensed)
    found = np.zeros((25, 3, 128))
    for slot, (dy, dx) in enumerate(SLOTS):
        there = (y + dy, x + dx)
        inside = min(there) >= 0 and max(there) < size
        sensed = observation.sensed[there] if inside else np.zeros(BINS)
        for h in range(3):
            heading = int(observation.heading_bin[slot, h])
            found[slot, h] = action(p, z.get(there, nothing), sensed, heading)
    return found


def cross(p, rho, tokens):
    """Step 9, for one action."""
    keys, values = ([linear(p, f"cross.attention.{of}", token) for token in tokens] for of in ("key", "value"))
    query = linear(p, "cross.attention.query", norm(p, "cross.norm", rho))
    return rho + linear(p, "cross.attention.output", look(p, "cross.attention", query, keys, values, gated=False))


def point(p, zeta, rho, mask):
    """Step 10, Eq. 12."""
    query, logits = linear(p, "pointer.query", zeta), {}
    for index in np.ndindex(mask.shape):
        if mask[index]:
            logits[index] = query @ linear(p, "pointer.key", rho[index]) / math.sqrt(128)
    return log_probabilities(logits, mask)


def log_probabilities(logits, mask):
    """Of the valid actions, whose logits are given by index."""
    found = np.full(mask.shape, -1e9)
    if logits:
        top = max(logits.values())
        total = top + math.log(sum(math.exp(value - top) for value in logits.values()))
        for index, value in logits.items():
            found[index] = value - total
    return found


def shares(observation):
    """Of the actor `options`: the units `u` of length, `n` of numbers of nodes, and `c` of the sides of cells."""
    range_m, spacing_m, cell_m = (
        int(mm) / 1000 for mm in (observation.range_mm, observation.spacing_mm, observation.cell_mm)
    )
    return range_m / 10, (spacing_m / (0.4 * range_m)) ** 2, cell_m / (0.04 * range_m)


def staleness_facts(observation, ways, site):
    """What a robot knows of a node that says whether others have looked behind what is left to look at from there."""
    u, _, c = shares(observation)
    b = [math.exp(float(part) * math.log(1025)) - 1 for part in observation.budget[:2]]
    flown = (b[0] - b[1]) / u
    base = tuple(int(v) for v in observation.base)
    number, team = int(observation.number), int(observation.team_size)
    x0, y0 = (100 * v / u for v in observation.node_features[base][:2])
    x, y = (100 * v / u for v in observation.node_features[site][:2])
    radius, bearing = math.hypot(x - x0, y - y0), math.atan2(y - y0, x - x0)
    along = [math.cos(bearing - 2 * math.pi * j / team - 0.3) for j in range(team)]
    apart = 100.0
    for mate, age in zip(*np.nonzero(observation.token_mask), strict=True):
        dx, dy = (20 * v / u for v in observation.tokens[mate, age, :2])
        apart = min(apart, math.hypot(x - dx, y - dy))
    return [
        along[number],
        max([along[j] for j in range(team) if j != number], default=-1.0),
        radius / 50,
        flown / 300,
        radius / max(flown, 8),
        observation.node_features[site][7] / u,
        ways.way_cm[site] / 100 / u / 100,
        min(ways.open_cm[site] / 100 / u, 10) / 10,
        apart / 50,
        4 * observation.node_features[site][2] * c,
        1 / team,
    ]


def staleness(p, observation, ways, sites):
    """Of the actor `options`: the logit that others have looked behind what is left to look at from a node, by site."""
    found = {}
    for site in sites:
        hidden = np.tanh(linear(p, "staleness.first", np.array(staleness_facts(observation, ways, site))))
        found[site] = linear(p, "staleness.last", np.tanh(linear(p, "staleness.second", hidden)))[0]
    return found


def option_policy(p, observation, ways, weighed):
    """Log-probabilities (25, 3) of the actor `options`; the action -1 is no option. Costs are in units already."""
    u, n, c = shares(observation)
    nodes = [tuple(site) for site in np.argwhere(observation.node_mask).tolist()]
    stale = {site: 1 / (1 + math.exp(-logit)) for site, logit in staleness(p, observation, ways, nodes).items()}
    open_nodes = [site for site in nodes if ways.open_cm[site] < 65535]

    def metres(site):
        return [100 * float(v) / u for v in observation.node_features[site][:2]] if site in stale else [0.0, 0.0]

    def apart(one, other):
        return math.dist(metres(one), metres(other))

    def of_goal(site):
        return [*staleness_facts(observation, ways, site), stale[site], observation.node_features[site][8]]

    def total(sites, of):
        return n * sum(of(stale[site]) for site in sites)

    options = {}
    for number, (action, site) in enumerate(zip(weighed.action, weighed.site, strict=True)):
        if action >= 0:
            options[number] = tuple(int(v) for v in site)
    cheapest = min((weighed.cost_m[number] for number in options), default=0.0)
    first = {}
    for number, goal in options.items():
        near = [site for site in open_nodes if apart(site, goal) <= 12]
        around = [site for site in open_nodes if apart(site, goal) <= 24]
        others = [apart(goal, other) for each, other in options.items() if each != number]
        facts = [
            *(of_goal(goal) if goal in stale else np.zeros(13)),
            (weighed.cost_m[number] - cheapest) / 20,
            weighed.cost_m[number] / 100,
            number / 6,
            total(near, lambda q: 1 - q) / 5,
            total(around, lambda q: 1 - q) / 10,
            total(near, lambda q: q) / 5,
            min(others, default=100.0) / 50,
            c * c * weighed.shown_cells[number] / 500,
            total(open_nodes, lambda q: 1 - q) / 20,
            total(open_nodes, lambda q: q) / 20,
            n * len(nodes) / 250,
            *observation.budget,
        ]
        first[number] = np.tanh(linear(p, "scorer.first", np.array(facts, float)))
    chance = np.ones((25, 3))
    for number, own in first.items():
        among = sum(first.values()) / len(first)
        hidden = np.tanh(linear(p, "scorer.second", np.concatenate([own, among])))
        worth = linear(p, "scorer.value", hidden)[0] - p["scorer.per_m"][0] * (weighed.cost_m[number] - cheapest)
        action = int(weighed.action[number])
        chance[action // 3, action % 3] += math.exp(12 + worth)
    mask = observation.action_mask
    return log_probabilities({i: math.log(chance[i]) for i in np.ndindex(mask.shape) if mask[i]}, mask)


def actor(p, observation, bucket, identity=False):
    """What each step makes, by name; "policy" are the log-probabilities (25, 3)."""
    here = tuple(int(v) for v in observation.site)
    sites = kept_sites(observation.node_mask, here, bucket)
    features = [observation.node_features[site] for site in sites]
    if identity:
        features = [np.array([*row, *bearing(observation, site)]) for row, site in zip(features, sites, strict=True)]
    histograms = [observation.histogram[site] for site in sites]
    z = encode_graph(p, features, histograms, neighbourhoods(sites, observation.edge))
    z = dict(zip(sites, z, strict=True))
    tau = encode_tokens(p, observation.tokens, observation.token_mask)
    fused = {}
    for (mate, age), token in tau.items():
        site = tuple(int(v) for v in observation.token_site[mate, age])
        fused[mate, age] = fuse(p, token, z.get(site, np.zeros(128)))
    zeta = context(p, z[here], observation, identity)
    rho = actions(p, observation, z)
    crossed = np.array([[cross(p, one, list(fused.values())) for one in row] for row in rho])
    policy = point(p, zeta, crossed, observation.action_mask)
    names = ("graph", "tokens", "fusion", "context", "action", "cross", "policy")
    return dict(zip(names, (z, tau, fused, zeta, rho, crossed, policy), strict=True))


def linked_sites(edge, start):
    """The sites that a chain of edges joins with the start."""
    found, todo = {start}, [start]
    while todo:
        y, x = todo.pop()
        for slot, (dy, dx) in enumerate(SLOTS):
            if edge[slot, y, x] and (y + dy, x + dx) not in found:
                found.add((y + dy, x + dx))
                todo.append((y + dy, x + dx))
    return found


def privileged_features(observation, privileged, spacing_m, site):
    """The fourteen of a critic's node."""
    y, x = (int(v) for v in observation.site)
    nine = np.array(observation.node_features[site], float)
    nine[:2] = (site[1] - x) * spacing_m / 100, (site[0] - y) * spacing_m / 100
    others = 0
    for number, other in enumerate(privileged.sites):
        if number != int(observation.number) and privileged.active[number] and tuple(other) == site:
            others += 1
    return np.array([*nine, *privileged.fractions[site], others / 2, float(site == (y, x))])


def critic(p, observation, privileged, edge, start, spacing_m, bucket, top=True, identity=False):
    """Values (2, 25, 3) of both heads, pre and post; (1, 25, 3) of a critic with one head."""
    heads = ("pre", "post") if "pre.value.weight" in p else ("head",)
    p = {name.removeprefix("trunk."): values for name, values in p.items()}
    here = tuple(int(v) for v in observation.site)
    if top:
        mask = np.zeros(observation.node_mask.shape, bool)
        for site in linked_sites(edge, start):
            mask[site] = True
        sites = kept_sites(mask, here, bucket)
        features = [privileged_features(observation, privileged, spacing_m, site) for site in sites]
    else:
        edge, sites = observation.edge, kept_sites(observation.node_mask, here, bucket)
        features = [np.array([*observation.node_features[site], 0, 0, 0, 0, 0]) for site in sites]
    if identity:
        features = [np.array([*row, *bearing(observation, site)]) for row, site in zip(features, sites, strict=True)]
    histograms = [observation.histogram[site] * observation.node_mask[site] for site in sites]
    z = encode_graph(p, features, histograms, neighbourhoods(sites, edge))
    z = dict(zip(sites, z, strict=True))
    zeta = context(p, z[here], observation, identity)
    rho = actions(p, observation, z)
    found = np.zeros((len(heads), 25, 3))
    for which, head in enumerate(heads):
        for index in np.ndindex(25, 3):
            hidden = relu(linear(p, f"{head}.hidden", np.concatenate([zeta, rho[index]])))
            found[which][index] = linear(p, f"{head}.value", hidden)[0]
    return found
