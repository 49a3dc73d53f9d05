"""Assignment: which column each row is given so that the sum of costs is least, by shortest augmenting paths."""

from __future__ import annotations

import numpy as np

from cursus.types import FloatArray, IntArray


def assign(costs: FloatArray) -> IntArray:
    """For each row a column of its own, so that the sum of the costs is least (Jonker & Volgenant 1987); O(rows² columns).

    Args:
        costs: finite, shape `(rows, columns)`, with at least as many columns as rows.
    """
    rows, columns = costs.shape
    row_price, column_price = np.zeros(rows), np.zeros(columns)
    row_of = np.full(columns, -1, dtype=np.int64)
    for new in range(rows):
        # Dijkstra over columns, by reduced costs, which are at least 0, until a free column is reached
        distance, before = np.full(columns, np.inf), np.full(columns, -1, dtype=np.int64)
        done = np.zeros(columns, dtype=bool)
        row, column, least = new, -1, 0.0
        while row >= 0:
            found = least + costs[row] - row_price[row] - column_price
            better = ~done & (found < distance)
            distance[better], before[better] = found[better], column
            column = int(np.argmin(np.where(done, np.inf, distance)))
            least, row = float(distance[column]), int(row_of[column])
            done[column] = True
        passed = np.flatnonzero(done & (row_of >= 0))
        row_price[new] += least
        row_price[row_of[passed]] += least - distance[passed]
        column_price[passed] -= least - distance[passed]
        while column >= 0:  # each row on the path gives its column to the row before it
            row_of[column] = row_of[before[column]] if before[column] >= 0 else new
            column = int(before[column])
    columns_of = np.empty(rows, dtype=np.int64)
    taken = np.flatnonzero(row_of >= 0)
    columns_of[row_of[taken]] = taken
    return columns_of
