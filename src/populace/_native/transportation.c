/* The loop of inference/hierarchy/transportation.py, compiled; that file says what it does, in the same order. */

#include "transportation.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROUNDS = 100, MAX_TRIALS = 60 };

/* Find the nearest rows that have their sums, given what each column adds; leave the columns' lack in `residual`. */
static void evaluate(Table *t, const double *shift, double *residual)
{
    Py_ssize_t n = t->columns;
    for (Py_ssize_t j = 0; j < n; j++)
        residual[j] = (double)t->column_sums[j];
    for (Py_ssize_t i = 0; i < t->rows; i++) {
        const double *target = t->target + i * n;
        const unsigned char *allowed = t->allowed + i * n;
        double *real = t->real + i * n, *sorted = t->sorted, sum = 0.0, excess = 0.0;
        Py_ssize_t held = 0;
        for (Py_ssize_t j = 0; j < n; j++) {
            real[j] = target[j] + shift[j] * t->variance[i];
            if (!allowed[j])
                continue;
            Py_ssize_t place = held++;
            for (; place && sorted[place - 1] < real[j]; place--)
                sorted[place] = sorted[place - 1];
            sorted[place] = real[j];
        }
        for (Py_ssize_t k = 0; k < held; k++) {
            sum += sorted[k];
            double mean = (sum - (double)t->row_sums[i]) / (double)(k + 1);
            if (!(sorted[k] > mean))
                break;
            excess = mean;
        }
        for (Py_ssize_t j = 0; j < n; j++) {
            real[j] = allowed[j] && real[j] > excess ? real[j] - excess : 0.0;
            residual[j] -= real[j];
        }
    }
}

/* Solve (system + ridge) step = residual by Cholesky's decomposition. */
static void solve(double *system, double ridge, const double *residual, double *step, Py_ssize_t n)
{
    for (Py_ssize_t j = 0; j < n; j++) {
        double sum = system[j * n + j] + ridge;
        for (Py_ssize_t k = 0; k < j; k++)
            sum -= system[j * n + k] * system[j * n + k];
        double root = sqrt(sum > ridge * 1e-3 ? sum : ridge * 1e-3);
        system[j * n + j] = root;
        for (Py_ssize_t i = j + 1; i < n; i++) {
            double value = system[i * n + j];
            for (Py_ssize_t k = 0; k < j; k++)
                value -= system[i * n + k] * system[j * n + k];
            system[i * n + j] = value / root;
        }
    }
    for (Py_ssize_t j = 0; j < n; j++) {
        double value = residual[j];
        for (Py_ssize_t k = 0; k < j; k++)
            value -= system[j * n + k] * step[k];
        step[j] = value / system[j * n + j];
    }
    for (Py_ssize_t j = n - 1; j >= 0; j--) {
        double value = step[j];
        for (Py_ssize_t k = j + 1; k < n; k++)
            value -= system[k * n + j] * step[k];
        step[j] = value / system[j * n + j];
    }
}

static void newton_step(Table *t, double worst)
{
    Py_ssize_t n = t->columns;
    double spread = 0.0;
    memset(t->system, 0, (size_t)(n * n) * sizeof *t->system);
    for (Py_ssize_t i = 0; i < t->rows; i++) {
        const double *real = t->real + i * n;
        Py_ssize_t held = 0;
        spread += t->variance[i];
        for (Py_ssize_t j = 0; j < n; j++)
            if (real[j] > 0.0)
                t->nodes[held++] = j;
        double share = held ? t->variance[i] / (double)held : 0.0;
        for (Py_ssize_t p = 0; p < held; p++) {
            double *line = t->system + t->nodes[p] * n;
            line[t->nodes[p]] += t->variance[i];
            for (Py_ssize_t q = 0; q < held; q++)
                line[t->nodes[q]] -= share;
        }
    }
    double ridge = 1e-3 * (worst < 1.0 ? worst : 1.0);
    solve(t->system, ridge * spread / (double)t->rows, t->residual, t->step, n);
}

static double inner(const double *one, const double *other, Py_ssize_t n)
{
    double sum = 0.0;
    for (Py_ssize_t j = 0; j < n; j++)
        sum += one[j] * other[j];
    return sum;
}

/* Newton's method on the concave dual, whose gradient is the residual; a step ends where the slope has halved,
 * before the maximum. */
static void find_nearest(Table *t)
{
    Py_ssize_t n = t->columns;
    double spread = 0.0, total = 0.0, before = INFINITY;
    for (Py_ssize_t i = 0; i < t->rows; i++)
        spread += t->variance[i];
    for (Py_ssize_t j = 0; j < n; j++) {
        double lack = (double)t->column_sums[j];
        total += lack;
        for (Py_ssize_t i = 0; i < t->rows; i++)
            lack -= t->allowed[i * n + j] ? t->target[i * n + j] : 0.0;
        t->shift[j] = lack / spread;
    }
    evaluate(t, t->shift, t->residual);
    for (int round = 0; round < MAX_ROUNDS; round++) {
        double worst = 0.0;
        for (Py_ssize_t j = 0; j < n; j++)
            worst = fabs(t->residual[j]) > worst ? fabs(t->residual[j]) : worst;
        /* In large tables the sums themselves are no more exact than this. */
        if (worst <= 1e-8 + 1e-12 * total || (worst < 1e-4 && worst > 0.5 * before))
            return;
        before = worst;
        newton_step(t, worst);
        double slope = inner(t->residual, t->step, n), low = 0.0, high = 0.0, length = 1.0;
        if (!(slope > 0.0))
            return;
        for (int trial = 0; trial < MAX_TRIALS; trial++) {
            for (Py_ssize_t j = 0; j < n; j++)
                t->trial[j] = t->shift[j] + length * t->step[j];
            evaluate(t, t->trial, t->next);
            double here = inner(t->next, t->step, n);
            if (here > 0.5 * slope) {
                low = length;
                length = high > 0.0 ? 0.5 * (low + high) : 2.0 * length;
            } else if (here < -1e-6 * slope) {
                high = length;
                length = 0.5 * (low + high);
            } else {
                break;
            }
        }
        memcpy(t->shift, t->trial, (size_t)n * sizeof *t->shift);
        memcpy(t->residual, t->next, (size_t)n * sizeof *t->residual);
    }
}

/* Write the table in fixed point with exactly its sums; return 0 if what is forbidden does not let it. */
static int fix_sums(Table *t)
{
    Py_ssize_t n = t->columns;
    int64_t *lack = (int64_t *)t->next;
    for (Py_ssize_t j = 0; j < n; j++)
        lack[j] = t->column_sums[j] * ONE;
    for (Py_ssize_t i = 0; i < t->rows; i++) {
        int64_t *fixed = t->fixed + i * n, rest = t->row_sums[i] * ONE;
        Py_ssize_t top = -1;
        for (Py_ssize_t j = 0; j < n; j++) {
            double value = t->real[i * n + j] * (double)ONE + 0.5;
            fixed[j] = value < (double)rest ? (int64_t)floor(value) : rest;
            fixed[j] = fixed[j] > rest ? rest : fixed[j];
            rest -= fixed[j];
            if (t->allowed[i * n + j] && (top < 0 || fixed[j] > fixed[top]))
                top = j;
        }
        if (rest && top < 0)
            return 0;
        if (rest)
            fixed[top] += rest;
        for (Py_ssize_t j = 0; j < n; j++)
            lack[j] -= fixed[j];
    }
    for (Py_ssize_t j = 0; j < n; j++)
        for (Py_ssize_t i = 0; i < t->rows && lack[j] < 0; i++) {
            int64_t *fixed = t->fixed + i * n;
            for (Py_ssize_t l = 0; l < n && lack[j] < 0 && fixed[j] > 0; l++) {
                if (lack[l] <= 0 || !t->allowed[i * n + l])
                    continue;
                int64_t moved = -lack[j] < lack[l] ? -lack[j] : lack[l];
                moved = moved < fixed[j] ? moved : fixed[j];
                fixed[j] -= moved;
                fixed[l] += moved;
                lack[j] += moved;
                lack[l] -= moved;
            }
        }
    for (Py_ssize_t j = 0; j < n; j++)
        if (lack[j])
            return 0;
    return 1;
}

/* The arrays of a call: targets, sums of rows, of columns, first children, variances, allowed, counts, reals, failed. */
enum { TARGETS, ROWS, COLUMNS, STARTS, VARIANCES, ALLOWED, COUNTS, REALS, FAILED, ARRAYS };

typedef struct {
    Py_ssize_t groups, columns;
    const double *targets, *variances;
    const int64_t *rows, *sums;
    const unsigned char *allowed;
    int64_t *counts;
    double *reals;
} Call;

/* Split the cells of one group of one parent among its children; return 0 where that fails. */
static int split(const Call *call, Table *t, Py_ssize_t parent, Py_ssize_t group, Py_ssize_t first, Py_ssize_t end)
{
    Py_ssize_t size = call->columns, m = 0, n = 0;
    const int64_t *sums = call->sums + (parent * call->groups + group) * size;
    int64_t balance = 0;
    for (Py_ssize_t j = 0; j < size; j++)
        if (sums[j]) {
            balance += sums[j];
            t->column_sums[n] = sums[j];
            t->active_columns[n++] = j;
        }
    for (Py_ssize_t u = first; u < end; u++) {
        int64_t sum = call->rows[u * call->groups + group];
        if (sum) {
            balance -= sum;
            t->row_sums[m] = sum;
            t->variance[m] = call->variances[u];
            t->active_rows[m++] = u;
        }
    }
    if (balance || !m)
        return !balance;
    t->rows = m;
    t->columns = n;
    for (Py_ssize_t i = 0; i < m; i++)
        for (Py_ssize_t j = 0; j < n; j++) {
            Py_ssize_t cell = (t->active_rows[i] * call->groups + group) * size + t->active_columns[j];
            t->target[i * n + j] = call->targets[cell];
            t->allowed[i * n + j] = !call->allowed || call->allowed[cell];
        }
    find_nearest(t);
    int fits = fix_sums(t);
    if (fits) {
        round_table(t);
        improve_table(t);
    }
    for (Py_ssize_t i = 0; i < m; i++)
        for (Py_ssize_t j = 0; j < n; j++) {
            Py_ssize_t cell = (t->active_rows[i] * call->groups + group) * size + t->active_columns[j];
            call->counts[cell] = fits ? t->fixed[i * n + j] / ONE : 0;
            if (call->reals)
                call->reals[cell] = t->real[i * n + j];
        }
    return fits;
}

/* Give the parts of a table their places in one block; return what is to be freed, or NULL. */
static void *make_table(Table *t, Py_ssize_t m, Py_ssize_t n)
{
    const Py_ssize_t lengths[] = {m * n, m * n, m, m * n, m, n, n, n, n, n, n, n, n * n, n * n, n,
                                  n * n, n + 1, 2 * n + 2, 2 * n + 2, m, n, n};
    void **const parts[] = {
        (void **)&t->target, (void **)&t->real, (void **)&t->variance, (void **)&t->fixed, (void **)&t->row_sums,
        (void **)&t->column_sums, (void **)&t->shift, (void **)&t->trial, (void **)&t->residual, (void **)&t->next,
        (void **)&t->step, (void **)&t->sorted, (void **)&t->system, (void **)&t->cost, (void **)&t->distance,
        (void **)&t->best, (void **)&t->slot_rows, (void **)&t->nodes, (void **)&t->parents,
        (void **)&t->active_rows, (void **)&t->active_columns, (void **)&t->before};
    const size_t number = sizeof lengths / sizeof *lengths;
    size_t words = 0;
    for (size_t i = 0; i < number; i++)
        words += (size_t)lengths[i];
    uint64_t *block = malloc(words * 8 + (size_t)(m * n + (n + 1) * n) + 8), *place = block;
    for (size_t i = 0; block && i < number; place += lengths[i++])
        *parts[i] = place;
    t->allowed = (unsigned char *)place;
    t->live = t->allowed + m * n;
    return block;
}

static int in_range(const int64_t *values, Py_ssize_t length, int64_t most)
{
    for (Py_ssize_t i = 0; i < length; i++)
        if (values[i] < 0 || values[i] > most)
            return 0;
    return 1;
}

/* Check the arrays against each other; return the most children of a parent, or -1 with an error set. */
static Py_ssize_t check(const Py_buffer *views, int masked, int real)
{
    const Py_ssize_t *shape = views[TARGETS].shape;
    Py_ssize_t units = shape[0], parents = views[COLUMNS].shape[0], most = 0;
    const int64_t *starts = views[STARTS].buf;
    int fits = views[ROWS].shape[0] == units && views[ROWS].shape[1] == shape[1] &&
               views[COLUMNS].shape[1] == shape[1] && views[COLUMNS].shape[2] == shape[2] &&
               views[STARTS].shape[0] == parents + 1 && views[VARIANCES].shape[0] == units &&
               (!masked || views[ALLOWED].len == units * shape[1] * shape[2]) &&
               views[COUNTS].len == views[TARGETS].len && (!real || views[REALS].len == views[TARGETS].len) &&
               views[FAILED].shape[0] == parents;
    if (!fits)
        return set_value_error("arrays differ in length"), -1;
    for (Py_ssize_t p = 0; p < parents; p++)
        if (starts[p] < 0 || starts[p + 1] < starts[p] || starts[p + 1] > units)
            return set_value_error("the first children are not in order"), -1;
        else if (starts[p + 1] - starts[p] > most)
            most = (Py_ssize_t)(starts[p + 1] - starts[p]);
    if (!in_range(views[ROWS].buf, views[ROWS].len / 8, MAX_COUNT) ||
        !in_range(views[COLUMNS].buf, views[COLUMNS].len / 8, MAX_COUNT))
        return set_value_error("a count is negative or too large"), -1;
    const double *targets = views[TARGETS].buf, *variances = views[VARIANCES].buf;
    for (Py_ssize_t i = 0; i < views[TARGETS].len / 8; i++)
        if (!(fabs(targets[i]) <= (double)MAX_COUNT))
            return set_value_error("a target is no number or too large"), -1;
    for (Py_ssize_t i = 0; i < units; i++)
        if (!(variances[i] >= 1e-9 && variances[i] <= 1e9))
            return set_value_error("a variance is no number or out of range"), -1;
    return most;
}

static int run(const Py_buffer *views, int masked, int real)
{
    Py_ssize_t most = check(views, masked, real);
    if (most < 0)
        return 0;
    const int64_t *starts = views[STARTS].buf;
    unsigned char *failed = views[FAILED].buf;
    Call call = {.groups = views[TARGETS].shape[1], .columns = views[TARGETS].shape[2],
                 .targets = views[TARGETS].buf, .variances = views[VARIANCES].buf, .rows = views[ROWS].buf,
                 .sums = views[COLUMNS].buf, .allowed = masked ? views[ALLOWED].buf : NULL,
                 .counts = views[COUNTS].buf, .reals = real ? views[REALS].buf : NULL};
    Table table;
    void *block = make_table(&table, most, call.columns);
    if (!block)
        return PyErr_NoMemory(), 0;
    Py_BEGIN_ALLOW_THREADS
    for (Py_ssize_t p = 0; p < views[FAILED].shape[0]; p++)
        for (Py_ssize_t group = 0; group < call.groups && !failed[p]; group++)
            failed[p] = !split(&call, &table, p, group, (Py_ssize_t)starts[p], (Py_ssize_t)starts[p + 1]);
    Py_END_ALLOW_THREADS
    free(block);
    return 1;
}

PyObject *split_tables(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *given[ARRAYS];
    if (!PyArg_ParseTuple(args, "OOOOOOOOO", &given[0], &given[1], &given[2], &given[3], &given[4], &given[5],
                          &given[6], &given[7], &given[8]))
        return NULL;
    const int write = PyBUF_WRITABLE;
    Kind kinds[ARRAYS] = {{"d", 8, 3, 0},  {"lq", 8, 2, 0}, {"lq", 8, 3, 0},     {"lq", 8, 1, 0},    {"d", 8, 1, 0},
                          {"B?", 1, 3, 0}, {"lq", 8, 3, write}, {"d", 8, 3, write}, {"B?", 1, 1, write}};
    int masked = given[ALLOWED] != Py_None, real = given[REALS] != Py_None, done = 0;
    /* What is absent is a second hold of the targets, which nobody writes to. */
    for (int i = 0; i < ARRAYS; i++)
        if (given[i] == Py_None && (i == ALLOWED || i == REALS))
            given[i] = given[TARGETS], kinds[i] = kinds[TARGETS];
    Py_buffer views[ARRAYS];
    Py_ssize_t held = get_arrays(given, views, kinds, ARRAYS);
    if (!PyErr_Occurred())
        done = run(views, masked, real);
    release_arrays(views, held);
    return done ? Py_NewRef(Py_None) : NULL;
}
