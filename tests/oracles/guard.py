"""Guard, modes and conflicts: docs/model.md a second time."""

import numpy as np

from decmarvel.core.config import Config
from oracles.lattice import OWN_SLOT, SLOTS, Site, neighbour, slot_length_mm


def best_edge_slot(config: Config, edge: np.ndarray, mm: np.ndarray, here: Site) -> int:
    """Edge slot of least length + mm, ties to the lower, 12 if no edge: section "Guard, modes, conflicts"."""
    best_slot, best_mm = OWN_SLOT, None
    for k in range(SLOTS):
        if not edge[k, here[0], here[1]]:
            continue
        total = slot_length_mm(config, k) + int(mm[neighbour(here, k)])
        if best_mm is None or total < best_mm:
            best_slot, best_mm = k, total
    return best_slot


def feasible_slots(config: Config, edge: np.ndarray, home_mm: np.ndarray, here: Site, budget_mm: int) -> np.ndarray:
    """Slots that have an edge and that Eq. 2 admits: section "Guard, modes, conflicts"."""
    feasible = np.zeros(SLOTS, dtype=bool)
    for k in range(SLOTS):
        if edge[k, here[0], here[1]]:
            needed = slot_length_mm(config, k) + int(home_mm[neighbour(here, k)]) + config.safety_margin_mm
            feasible[k] = needed <= int(budget_mm)
    return feasible


def must_return(config: Config, home_mm: np.ndarray, here: Site, budget_mm: int) -> bool:
    """Eq. 3: section "Guard, modes, conflicts"."""
    return int(home_mm[here[0], here[1]]) + config.safety_margin_mm >= int(budget_mm)


def return_slot(config: Config, edge: np.ndarray, home_mm: np.ndarray, here: Site) -> int:
    """Edge slot of a returning robot: section "Guard, modes, conflicts"."""
    return best_edge_slot(config, edge, home_mm, here)


def resolve_conflicts(
    config: Config,
    here: list[Site],
    active: list[bool],
    returning: list[bool],
    waited: list[bool],
    choice: list[int],
    scores: np.ndarray,
    feasible: np.ndarray,
    order: list[int],
) -> list[tuple[Site, int]]:
    """Target site and candidate of each robot after conflicts (-1: holds): section "Guard, modes, conflicts"."""
    per_slot = config.headings_per_node
    robots = [n for n in range(len(here)) if active[n]]
    here = [(int(i), int(j)) for i, j in here]
    used = []
    for n in range(len(here)):
        holds = not active[n] or choice[n] < 0 or choice[n] // per_slot == OWN_SLOT
        used.append(-1 if holds else int(choice[n]))
    banned = [set() for _ in here]

    def target(n: int) -> Site:
        return here[n] if used[n] == -1 else neighbour(here[n], used[n] // per_slot)

    def rank(n: int) -> tuple[int, int, int, int]:
        length = 0 if used[n] == -1 else slot_length_mm(config, used[n] // per_slot)
        return (
            0 if used[n] == -1 else 1,
            0 if returning[n] else 1,
            order[n] if returning[n] or waited[n] else length,
            n,
        )

    while True:
        groups = {}
        for n in robots:
            groups.setdefault(target(n), []).append(n)
        losers = []
        for group in groups.values():
            keeper = min(group, key=rank)
            for n in group:
                if n != keeper and used[n] != -1:
                    losers.append(n)
        if not losers:
            break
        loser = min(losers)
        banned[loser].add(target(loser))
        taken = {target(n) for n in robots if n != loser}
        best = -1
        if not returning[loser]:
            for candidate in range(SLOTS * per_slot):
                slot = candidate // per_slot
                site = neighbour(here[loser], slot)
                if not feasible[loser][slot] or site in banned[loser] or site in taken:
                    continue
                if best == -1 or scores[loser][candidate] > scores[loser][best]:
                    best = candidate
        used[loser] = best

    return [(target(n), used[n]) for n in range(len(here))]
