/* The loops of inference/fit/junction_ipf.py, compiled; that file says what they do. A walk is how a table's cells, in
 * order, lie in a smaller one: an axis (length, stride) after the other, the last one running fastest. Sums are taken
 * in another order than NumPy's, so both agree to the last digits only.
 */

#include "kernels.h"
#include <math.h>
#include <string.h>

enum { MAX_AXES = 64, NEWTON = 2 };

static const double LARGEST_FACTOR = 1e9, TINY = 1e-300, HELD = 0.01;

typedef struct {
    int64_t length, stride;
} Axis;

/* A walk on its way: the counters of all axes but the last two, and the cell of the smaller table. The last two are
 * gone through by two loops, the longer one inside, whichever of them runs faster. */
typedef struct {
    const Axis *axes;
    int64_t at[MAX_AXES], cell, blocks, block;
    Py_ssize_t outer;
    Axis inside, outside;
    int64_t inside_step, outside_step;
} Walk;

static Walk begin_walk(const Py_buffer *axes)
{
    Walk walk = {.axes = axes->buf, .cell = 0, .blocks = 1, .outer = axes->shape[0] - 2};
    Axis fast = walk.axes[walk.outer + 1], slow = {1, 0};
    if (walk.outer >= 0)
        slow = walk.axes[walk.outer];
    int turned = slow.length > fast.length;
    walk.inside = turned ? slow : fast;
    walk.outside = turned ? fast : slow;
    walk.inside_step = turned ? fast.length : 1;
    walk.outside_step = turned ? 1 : fast.length;
    walk.block = fast.length * slow.length;
    for (Py_ssize_t i = 0; i < walk.outer; i++) {
        walk.at[i] = 0;
        walk.blocks *= walk.axes[i].length;
    }
    return walk;
}

static inline void step(Walk *walk)
{
    for (Py_ssize_t i = walk->outer - 1; i >= 0; i--) {
        const Axis *axis = &walk->axes[i];
        walk->cell += axis->stride;
        if (++walk->at[i] < axis->length)
            return;
        walk->cell -= axis->stride * axis->length;
        walk->at[i] = 0;
    }
}

static inline double sum(const double *values, int64_t length, int64_t step)
{
    double parts[4] = {0.0, 0.0, 0.0, 0.0};
    int64_t i = 0;
    for (; i + 3 < length; i += 4)
        for (int part = 0; part < 4; part++)
            parts[part] += values[(i + part) * step];
    for (; i < length; i++)
        parts[0] += values[i * step];
    return (parts[0] + parts[1]) + (parts[2] + parts[3]);
}

/* Sum a run of cells into others; the usual steps are written out for the compiler. */
static inline void add_run(const double *restrict from, int64_t step, double *restrict to, Axis axis)
{
    if (!axis.stride)
        *to += step == 1 ? sum(from, axis.length, 1) : sum(from, axis.length, step);
    else if (axis.stride == 1 && step == 1)
        for (int64_t i = 0; i < axis.length; i++)
            to[i] += from[i];
    else
        for (int64_t i = 0; i < axis.length; i++)
            to[i * axis.stride] += from[i * step];
}

static inline void scale_run(double *restrict cells, int64_t step, const double *restrict by, Axis axis)
{
    if (!axis.stride && step == 1)
        for (int64_t i = 0; i < axis.length; i++)
            cells[i] *= *by;
    else if (axis.stride == 1 && step == 1)
        for (int64_t i = 0; i < axis.length; i++)
            cells[i] *= by[i];
    else
        for (int64_t i = 0; i < axis.length; i++)
            cells[i * step] *= by[i * axis.stride];
}

/* Sum a table into a smaller one. */
WIDE static void marginalize(const double *table, const Py_buffer *axes, double *sums, Py_ssize_t cells)
{
    memset(sums, 0, (size_t)cells * sizeof *sums);
    Walk walk = begin_walk(axes);
    for (int64_t block = 0; block < walk.blocks; block++, table += walk.block, step(&walk))
        for (int64_t i = 0; i < walk.outside.length; i++)
            add_run(table + i * walk.outside_step, walk.inside_step, sums + walk.cell + i * walk.outside.stride,
                    walk.inside);
}

/* Multiply a table by values over a smaller one. */
WIDE static void multiply_expanded(double *table, const Py_buffer *axes, const double *values)
{
    Walk walk = begin_walk(axes);
    for (int64_t block = 0; block < walk.blocks; block++, table += walk.block, step(&walk))
        for (int64_t i = 0; i < walk.outside.length; i++)
            scale_run(table + i * walk.outside_step, walk.inside_step, values + walk.cell + i * walk.outside.stride,
                      walk.inside);
}

/* Add values over a smaller table to a table. */
static void add_expanded(double *restrict table, const Py_buffer *axes, const double *restrict values)
{
    Walk walk = begin_walk(axes);
    for (int64_t block = 0; block < walk.blocks; block++, table += walk.block, step(&walk))
        for (int64_t i = 0; i < walk.outside.length; i++)
            for (int64_t j = 0; j < walk.inside.length; j++)
                table[i * walk.outside_step + j * walk.inside_step] +=
                    values[walk.cell + i * walk.outside.stride + j * walk.inside.stride];
}

static double full_step(double found, double target)
{
    double ratio = target / fmax(found, TINY);
    return log(fmin(fmax(ratio, 1 / LARGEST_FACTOR), LARGEST_FACTOR));
}

static double damped_step(double found, double target, double soft, double least)
{
    double here = fmax(found, TINY), grown;
    double change = target > here ? fmin(target / soft, log(target / here)) : fmin(target / soft, 0.0);
    for (int round = 0; round < NEWTON; round++) {
        grown = here * exp(change);
        change -= (grown + soft * change - target) / (grown + soft);
    }
    /* Logarithms are slow: the lowest change is looked for only where it may be above this one. */
    if (change >= 0 || (change > -1 && here > 3 * least))
        return change;
    return fmax(change, fmin(log(fmax(least, TINY) / here), 0.0));
}

/* Turn what was found into the factor by which each cell changes, write the factors' logarithms into `changes`, and
 * return how much is moved. Without `soft` cells go the whole way. */
static double find_log_factors(double *restrict found, double *restrict changes, Py_ssize_t cells, const double *target,
                         const double *soft, const double *potential, double least)
{
    double mean = soft ? sum(potential, cells, 1) / (double)cells : 0.0, moved = 0.0;
    for (Py_ssize_t i = 0; i < cells; i++) {
        double change = 0.0;
        if (found[i] > 0 && soft)
            change = damped_step(found[i], target[i] - HELD * soft[i] * (potential[i] - mean), soft[i], least);
        else if (found[i] > 0)
            change = full_step(found[i], target[i]);
        double ratio = exp(change);
        moved += found[i] * fabs(ratio - 1);
        changes[i] = change;
        found[i] = ratio;
    }
    return moved;
}

/* Tell whether a walk goes over a whole table and stays within a smaller one; if not, an error is set. */
static int walk_fits(const Py_buffer *axes, Py_ssize_t table, Py_ssize_t cells)
{
    const Axis *axis = axes->buf;
    int64_t over = 1, last = 0, number = axes->shape[0];
    int fits = axes->shape[1] == 2 && number > 0 && number <= MAX_AXES && table > 0;
    for (int64_t i = 0; fits && i < number; i++) {
        int64_t length = axis[i].length, stride = axis[i].stride;
        fits = length > 0 && stride >= 0 && stride < cells && over <= table / length &&
               (length == 1 || stride <= (cells - 1 - last) / (length - 1));
        if (fits) {
            over *= length;
            last += stride * (length - 1);
        }
    }
    return (fits && over == table && last < cells) || set_value_error("a walk leads outside its tables");
}

#define NUMBERS {"d", 8, 1, 0}
#define WRITTEN {"d", 8, 1, PyBUF_WRITABLE}
#define WALK {"lq", 8, 2, 0}

PyObject *scale_to_target(PyObject *Py_UNUSED(module), PyObject *args)
{
    enum { TABLE, WORK, POTENTIAL, INSIDE, INTO, TARGET, SOFT, ALL };
    PyObject *given[ALL];
    double least, moved = 0.0;
    if (!PyArg_ParseTuple(args, "OOOOOOOd", &given[TABLE], &given[WORK], &given[POTENTIAL], &given[INSIDE],
                          &given[INTO], &given[TARGET], &given[SOFT], &least))
        return NULL;
    int soft = given[SOFT] != Py_None;
    static const Kind kinds[ALL] = {WRITTEN, WRITTEN, WRITTEN, WALK, WALK, NUMBERS, NUMBERS};
    Py_buffer views[ALL];
    Py_ssize_t held = get_arrays(given, views, kinds, soft ? ALL : SOFT);
    if (!PyErr_Occurred()) {
        Py_ssize_t cells = views[TARGET].shape[0], whole = views[POTENTIAL].shape[0];
        double *found = views[WORK].buf, *changes = found + cells;
        if (!cells || views[WORK].shape[0] / 2 < cells ||
            (soft && (views[SOFT].shape[0] != cells || whole != cells)))
            set_value_error("a target differs in length from what belongs to it");
        else if (walk_fits(&views[INSIDE], views[TABLE].shape[0], cells) && walk_fits(&views[INTO], whole, cells)) {
            Py_BEGIN_ALLOW_THREADS
            marginalize(views[TABLE].buf, &views[INSIDE], found, cells);
            moved = find_log_factors(found, changes, cells, views[TARGET].buf, soft ? views[SOFT].buf : NULL,
                               views[POTENTIAL].buf, least);
            multiply_expanded(views[TABLE].buf, &views[INSIDE], found);
            add_expanded(views[POTENTIAL].buf, &views[INTO], changes);
            Py_END_ALLOW_THREADS
        }
    }
    release_arrays(views, held);
    return PyErr_Occurred() ? NULL : PyFloat_FromDouble(moved);
}

/* Make `up` or `down` the factor by which cells change so that they agree with the other. */
static void divide_tables(double *restrict here, const double *restrict wanted, Py_ssize_t cells)
{
    for (Py_ssize_t i = 0; i < cells; i++)
        here[i] = here[i] > 0 ? wanted[i] / here[i] : 0.0;
}

PyObject *scale_to_separator(PyObject *Py_UNUSED(module), PyObject *args)
{
    enum { SOURCE, TARGET, WORK, FROM, INTO, ALL };
    PyObject *given[ALL];
    Py_ssize_t cells;
    if (!PyArg_ParseTuple(args, "OOOOOn", &given[SOURCE], &given[TARGET], &given[WORK], &given[FROM], &given[INTO],
                          &cells))
        return NULL;
    static const Kind kinds[ALL] = {NUMBERS, WRITTEN, WRITTEN, WALK, WALK};
    Py_buffer views[ALL];
    Py_ssize_t held = get_arrays(given, views, kinds, ALL);
    if (!PyErr_Occurred()) {
        double *wanted = views[WORK].buf;
        if (cells < 1 || views[WORK].shape[0] / 2 < cells)
            set_value_error("there is no room for what two tables share");
        else if (walk_fits(&views[FROM], views[SOURCE].shape[0], cells) &&
                 walk_fits(&views[INTO], views[TARGET].shape[0], cells)) {
            double *here = wanted + cells;
            Py_BEGIN_ALLOW_THREADS
            marginalize(views[SOURCE].buf, &views[FROM], wanted, cells);
            marginalize(views[TARGET].buf, &views[INTO], here, cells);
            divide_tables(here, wanted, cells);
            multiply_expanded(views[TARGET].buf, &views[INTO], here);
            Py_END_ALLOW_THREADS
        }
    }
    release_arrays(views, held);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}
