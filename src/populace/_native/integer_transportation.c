/* Rounding a table in fixed point to integers with the same sums, and moving single units while that is nearer.
 * inference/hierarchy/integer_rounding.py says what is done, in the same order. */

#include "transportation.h"
#include <math.h>
#include <string.h>

/* Rows looked at while units are moved, for one table. */
#define MAX_WORK INT64_C(200000000)

/* Find the path from a row, the last slot in use, to a column in the forest of fractional entries: columns are nodes
 * 0 … n − 1, slots follow. Return whether there is one, by the parents from the column back to the row. */
static int find_path(const Table *t, Py_ssize_t slots, Py_ssize_t slot, Py_ssize_t column)
{
    Py_ssize_t n = t->columns, done = 0, found = 0, *parents = t->parents, *nodes = t->nodes;
    for (Py_ssize_t node = 0; node < n + slots; node++)
        parents[node] = -1;
    parents[n + slot] = n + slot;
    nodes[found++] = n + slot;
    while (done < found) {
        Py_ssize_t node = nodes[done++], end = node < n ? slots : n;
        for (Py_ssize_t k = 0; k < end; k++) {
            Py_ssize_t other = node < n ? n + k : k;
            int joined = node < n ? t->live[k * n + node] : t->live[(node - n) * n + k];
            if (!joined || parents[other] >= 0)
                continue;
            parents[other] = node;
            if (other == column)
                return 1;
            nodes[found++] = other;
        }
    }
    return 0;
}

/* Push around the cycle that the entry (slot, column) closes until an entry is an integer, the nearer way round. */
static void push_cycle(Table *t, Py_ssize_t slot, Py_ssize_t column)
{
    Py_ssize_t n = t->columns;
    int64_t most[2] = {ONE, ONE}, moved;
    double change[2] = {0.0, 0.0};
    /* First how far and at what price, then the push itself. */
    for (int pass = 0; pass < 3; pass++) {
        int way = change[1] < change[0];
        moved = way ? -most[1] : most[0];
        int sign = 1;
        Py_ssize_t from = n + slot, to = column;
        do {
            Py_ssize_t place = from < n ? to - n : from - n, j = from < n ? from : to, i = t->slot_rows[place];
            int64_t *entry = &t->fixed[i * n + j], part = *entry % ONE;
            if (pass == 0) {
                int64_t up = ONE - part, down = part;
                most[0] = (sign > 0 ? up : down) < most[0] ? (sign > 0 ? up : down) : most[0];
                most[1] = (sign > 0 ? down : up) < most[1] ? (sign > 0 ? down : up) : most[1];
            } else if (pass == 1) {
                double off = (double)*entry / (double)ONE - t->target[i * n + j];
                for (int k = 0; k < 2; k++) {
                    double size = (double)most[k] / (double)ONE, by = sign * (k ? -size : size);
                    change[k] += (2.0 * off * by + by * by) / t->variance[i];
                }
            } else {
                *entry += sign * moved;
                t->live[place * n + j] = *entry % ONE != 0;
            }
            sign = -sign;
            from = to;
            to = t->parents[from];
        } while (from != n + slot);
    }
}

void round_table(Table *t)
{
    Py_ssize_t n = t->columns, slots = 0;
    for (Py_ssize_t i = 0; i < t->rows; i++) {
        Py_ssize_t slot = slots++;
        t->slot_rows[slot] = i;
        memset(t->live + slot * n, 0, (size_t)n);
        for (Py_ssize_t j = 0; j < n; j++)
            if (t->fixed[i * n + j] % ONE) {
                int closes = find_path(t, slots, slot, j);
                t->live[slot * n + j] = 1;
                if (closes)
                    push_cycle(t, slot, j);
            }
        /* Rows without a fraction left give up their slots. */
        Py_ssize_t kept = 0;
        for (Py_ssize_t k = 0; k < slots; k++) {
            if (!memchr(t->live + k * n, 1, (size_t)n))
                continue;
            t->slot_rows[kept] = t->slot_rows[k];
            memmove(t->live + kept * n, t->live + k * n, (size_t)n);
            kept++;
        }
        slots = kept;
    }
}

/* What it costs that a row moves one unit from a column to another; infinite where it cannot. */
static double move_cost(const Table *t, Py_ssize_t i, Py_ssize_t from, Py_ssize_t to)
{
    const int64_t *fixed = t->fixed + i * t->columns;
    const double *target = t->target + i * t->columns;
    if (!fixed[from] || !t->allowed[i * t->columns + to])
        return INFINITY;
    double less = (double)(fixed[from] / ONE) - target[from], more = (double)(fixed[to] / ONE) - target[to];
    return ((1.0 - 2.0 * less) + (1.0 + 2.0 * more)) / t->variance[i];
}

static void scan_pair(Table *t, Py_ssize_t from, Py_ssize_t to)
{
    Py_ssize_t place = from * t->columns + to;
    t->cost[place] = INFINITY;
    t->best[place] = -1;
    for (Py_ssize_t i = 0; i < t->rows; i++) {
        double cost = move_cost(t, i, from, to);
        if (cost < t->cost[place]) {
            t->cost[place] = cost;
            t->best[place] = i;
        }
    }
}

/* Find a cycle of columns whose moves cost less than nothing (Bellman and Ford); return a column of it, or -1. */
static Py_ssize_t find_cycle(Table *t)
{
    Py_ssize_t n = t->columns, last = -1;
    for (Py_ssize_t j = 0; j < n; j++) {
        t->distance[j] = 0.0;
        t->before[j] = -1;
    }
    for (Py_ssize_t pass = 0; pass <= n; pass++) {
        last = -1;
        for (Py_ssize_t j = 0; j < n; j++)
            for (Py_ssize_t l = 0; l < n; l++)
                if (l != j && t->distance[j] + t->cost[j * n + l] < t->distance[l] - 1e-9) {
                    t->distance[l] = t->distance[j] + t->cost[j * n + l];
                    t->before[l] = j;
                    last = l;
                }
        if (last < 0)
            return -1;
    }
    for (Py_ssize_t k = 0; k < n && last >= 0; k++)
        last = t->before[last];
    return last;
}

/* Compare the moves of a changed row with the best known ones. */
static void compare_row(Table *t, Py_ssize_t row)
{
    Py_ssize_t n = t->columns;
    for (Py_ssize_t j = 0; j < n; j++)
        for (Py_ssize_t l = 0; l < n; l++) {
            double cost = l == j ? INFINITY : move_cost(t, row, j, l);
            if (cost < t->cost[j * n + l]) {
                t->cost[j * n + l] = cost;
                t->best[j * n + l] = row;
            }
        }
}

void improve_table(Table *t)
{
    Py_ssize_t n = t->columns;
    int64_t work = (int64_t)t->rows * n * n;
    for (Py_ssize_t j = 0; j < n; j++)
        for (Py_ssize_t l = 0; l < n; l++)
            if (l != j)
                scan_pair(t, j, l);
    while (work < MAX_WORK) {
        Py_ssize_t start = find_cycle(t), number = 0, to = start;
        if (start < 0)
            return;
        double cost = 0.0;
        do {
            cost += t->cost[t->before[to] * n + to];
            to = t->before[to];
        } while (to != start);
        if (!(cost < -1e-7))
            return;
        do {
            Py_ssize_t from = t->before[to], row = t->best[from * n + to];
            t->fixed[row * n + from] -= ONE;
            t->fixed[row * n + to] += ONE;
            t->nodes[number++] = row;
            to = from;
        } while (to != start);
        for (Py_ssize_t j = 0; j < n; j++)
            for (Py_ssize_t l = 0; l < n; l++)
                for (Py_ssize_t k = 0; l != j && k < number; k++)
                    if (t->best[j * n + l] == t->nodes[k]) {
                        scan_pair(t, j, l);
                        work += t->rows;
                        break;
                    }
        for (Py_ssize_t k = 0; k < number; k++)
            compare_row(t, t->nodes[k]);
        work += n * n * n;
    }
}
