/* The loops of cell_moves.py, compiled; that file says what they do and what a plan is. Sums are taken in the same
 * order, so both move the same cells.
 */

#include "cell_move_plan.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The arrays of a call after those of its plan: those of both loops, then those of moving alone. */
enum { CODES = FIELDS, DEFICITS, LEAVING, TO_SCREEN, VISITED = TO_SCREEN, BARS, MOVED, TO_MOVE };

/* What both loops work on; `codes` and `leaving` have a row for each column. */
typedef struct {
    CellMovePlan plan;
    uint32_t *codes;
    float *deficits;
    double *leaving;
    double slope;
    Py_ssize_t rows;
} Work;

static int codes_fit(const Work *work)
{
    for (int64_t column = 0; column < work->plan.columns; column++) {
        uint32_t largest = 0;
        for (Py_ssize_t row = 0; row < work->rows; row++) {
            uint32_t code = work->codes[column * work->rows + row];
            largest = code > largest ? code : largest;
        }
        if (work->rows && largest >= work->plan.sizes[column])
            return 0;
    }
    return 1;
}

/* Cut a cost to −1 … 1. */
static inline double clip_cost(double cost)
{
    cost = cost > -1.0 ? cost : -1.0;
    return cost < 1.0 ? cost : 1.0;
}

static inline int64_t cell_of(const Place *at, const int64_t *row)
{
    return at->offset + row[at->own] + at->stride * row[at->second] + at->step * row[at->third];
}

/* Write what one row less costs in the cells of a table. Numbers of 32 bits are multiplied side by side. */
static inline void costs_of(const Work *work, int64_t table, double *restrict costs)
{
    const Place *at = &work->plan.places[work->plan.tables[table]];
    const uint32_t *own = work->codes + at->own * work->rows, *second = work->codes + at->second * work->rows;
    const uint32_t *third = work->codes + at->third * work->rows;
    const float *deficits = work->deficits + at->offset;
    uint32_t stride = (uint32_t)at->stride, step = (uint32_t)at->step;
    if (step)
        for (Py_ssize_t row = 0; row < work->rows; row++)
            costs[row] = deficits[own[row] + stride * second[row] + step * third[row]];
    else
        for (Py_ssize_t row = 0; row < work->rows; row++)
            costs[row] = deficits[own[row] + stride * second[row]];
    for (Py_ssize_t row = 0; row < work->rows; row++)
        costs[row] = clip_cost(work->slope * (1.0 + 2.0 * costs[row]));
}

WIDE static void screen_rows(const Work *work, double *restrict costs)
{
    const CellMovePlan *plan = &work->plan;
    for (Py_ssize_t i = 0; i < plan->columns * work->rows; i++)
        work->leaving[i] = 0.0;
    for (int64_t table = 0; table < plan->table_count; table++) {
        costs_of(work, table, costs);
        for (int64_t place = plan->tables[table]; place < plan->tables[table + 1]; place++) {
            double *restrict sums = work->leaving + plan->places[place].own * work->rows;
            for (Py_ssize_t row = 0; row < work->rows; row++)
                sums[row] += costs[row];
        }
    }
}

static int keeps_rules(const CellMovePlan *plan, int64_t column, const int64_t *row)
{
    for (int64_t i = plan->watched[column]; i < plan->watched[column + 1]; i++) {
        int64_t rule = plan->guards[i], cell = plan->corners[rule];
        for (int64_t j = plan->rules[rule]; j < plan->rules[rule + 1]; j++) {
            int64_t other = plan->members[j].column;
            cell += plan->members[j].stride * plan->classes[plan->class_starts[other] + row[other]];
        }
        if (!plan->allowed[cell])
            return 0;
    }
    return 1;
}

static inline int64_t cheapest(const double *costs, int64_t size)
{
    int64_t least = 0;
    for (int64_t code = 1; code < size; code++)
        if (costs[code] < costs[least])
            least = code;
    return least;
}

/* Add to the deficits of the row's cells, in all places of the tables with a column. */
static inline void shift(const Work *work, int64_t column, const int64_t *row, float by)
{
    const CellMovePlan *plan = &work->plan;
    for (int64_t i = plan->starts[column]; i < plan->starts[column + 1]; i++) {
        int64_t table = plan->table_of[plan->ends[i]];
        for (int64_t place = plan->tables[table]; place < plan->tables[table + 1]; place++)
            work->deficits[cell_of(&plan->places[place], row)] += by;
    }
}

/* Return what it costs the row to leave its code in a column. */
static inline double cost_to_leave(const Work *work, int64_t column, const int64_t *row)
{
    const CellMovePlan *plan = &work->plan;
    double left = 0.0;
    for (int64_t i = plan->starts[column]; i < plan->starts[column + 1]; i++) {
        const Place *at = &plan->places[plan->ends[i]];
        left += clip_cost(work->slope * (1.0 + 2.0 * (double)work->deficits[cell_of(at, row)]));
    }
    return left;
}

/* Add what one row more costs in cells that lie side by side. */
WIDE static void add_costs(double *restrict entering, const float *restrict lacks, int64_t size, double slope)
{
    for (int64_t code = 0; code < size; code++)
        entering[code] += clip_cost(slope * (1.0 - 2.0 * (double)lacks[code]));
}

/* Write what it costs the row to enter each code of a column. */
static void costs_to_enter(const Work *work, int64_t column, const int64_t *row, double *entering)
{
    const CellMovePlan *plan = &work->plan;
    memset(entering, 0, (size_t)plan->sizes[column] * sizeof *entering);
    for (int64_t i = plan->starts[column]; i < plan->starts[column + 1]; i++) {
        const float *lacks = work->deficits + cell_of(&plan->places[plan->ends[i]], row) - row[column];
        add_costs(entering, lacks, plan->sizes[column], work->slope);
    }
}

/* Return the code that the row should take in a column: the one it has, if none is better and allowed. */
static inline int64_t best_code(const Work *work, int64_t column, int64_t *row, double bar, double *entering)
{
    int64_t held = row[column], size = work->plan.sizes[column];
    double left = cost_to_leave(work, column, row);
    if (left >= bar)
        return held;
    costs_to_enter(work, column, row, entering);
    /* Rounding must not let a cell go to and fro. */
    entering[held] = -left - 1e-6;
    int64_t chosen = cheapest(entering, size);
    while (entering[chosen] < entering[held]) {
        row[column] = chosen;
        int keeps = keeps_rules(&work->plan, column, row);
        row[column] = held;
        if (keeps)
            return chosen;
        entering[chosen] = INFINITY;
        chosen = cheapest(entering, size);
    }
    return held;
}

static void move_rows(const Work *work, const int64_t *visited, Py_ssize_t visits, const double *bars, int64_t *moved,
                 int64_t *row, double *entering)
{
    for (Py_ssize_t visit = 0; visit < visits; visit++) {
        uint32_t *codes = work->codes + visited[visit];
        const double *leaving = work->leaving + visited[visit];
        for (int64_t column = 0; column < work->plan.columns; column++)
            row[column] = codes[column * work->rows];
        for (int64_t column = 0; column < work->plan.columns; column++) {
            if (leaving[column * work->rows] >= bars[column])
                continue;
            int64_t chosen = best_code(work, column, row, bars[column], entering);
            if (chosen == row[column])
                continue;
            shift(work, column, row, 1.0f);
            row[column] = chosen;
            shift(work, column, row, -1.0f);
            codes[column * work->rows] = (uint32_t)chosen;
            moved[column]++;
        }
    }
}

static int run_screen(const Work *work)
{
    double *costs = malloc(((size_t)work->rows + 1) * sizeof *costs);
    if (costs)
        screen_rows(work, costs);
    free(costs);
    return costs != NULL;
}

static int run_move(const Work *work, const Py_buffer *views)
{
    int64_t widest = 1;
    for (int64_t column = 0; column < work->plan.columns; column++)
        widest = work->plan.sizes[column] > widest ? work->plan.sizes[column] : widest;
    double *entering = malloc((size_t)widest * sizeof *entering);
    int64_t *row = malloc(((size_t)work->plan.columns + 1) * sizeof *row);
    int enough = entering && row;
    if (enough)
        move_rows(work, views[VISITED].buf, views[VISITED].shape[0], views[BARS].buf, views[MOVED].buf, row, entering);
    free(entering);
    free(row);
    return enough;
}

/* The arrays of a call that are not lists of whole numbers to read. */
static const Kind kinds[TO_MOVE] = {
    [PLACES] = {"lq", 8, 2, 0},
    [MEMBERS] = {"lq", 8, 2, 0},
    [CODES] = {"IL", 4, 2, PyBUF_WRITABLE},
    [DEFICITS] = {"f", 4, 1, PyBUF_WRITABLE},
    [LEAVING] = {"d", 8, 2, PyBUF_WRITABLE},
    [BARS] = {"d", 8, 1, 0},
    [MOVED] = {"lq", 8, 1, PyBUF_WRITABLE},
};

static int work_fits(const Work *work, const Py_buffer *views, Py_ssize_t number)
{
    int64_t columns = work->plan.columns;
    if (!plan_fits(&work->plan, views, views[DEFICITS].shape[0]))
        return 0;
    if (number == TO_SCREEN && views[DEFICITS].shape[0] > INT64_C(1) << 32)
        return set_value_error("there are too many deficits to screen");
    if (views[CODES].shape[0] != columns || views[LEAVING].shape[0] != columns ||
        views[LEAVING].shape[1] != work->rows || !codes_fit(work))
        return set_value_error("the codes do not fit the plan");
    if (number == TO_MOVE && (!all_below(&views[VISITED], work->rows) || views[BARS].shape[0] != columns ||
                              views[MOVED].shape[0] != columns))
        return set_value_error("the rows to visit do not exist, or there is no bar or count for each column");
    return 1;
}

/* Run a loop; of its arrays `given` those of the plan are still to be filled in. */
static PyObject *run(PyObject *plan, PyObject **given, Py_ssize_t number, double slope)
{
    Py_buffer views[TO_MOVE];
    if (PyTuple_Size(plan) != FIELDS)
        return set_value_error("this is not a plan"), NULL;
    for (Py_ssize_t i = 0; i < FIELDS; i++)
        given[i] = PyTuple_GetItem(plan, i);
    Py_ssize_t held = get_arrays(given, views, kinds, number);
    if (!PyErr_Occurred()) {
        Work work = {as_plan(views), views[CODES].buf, views[DEFICITS].buf, views[LEAVING].buf, slope,
                     views[CODES].shape[1]};
        if (work_fits(&work, views, number)) {
            int done;
            Py_BEGIN_ALLOW_THREADS
            done = number == TO_MOVE ? run_move(&work, views) : run_screen(&work);
            Py_END_ALLOW_THREADS
            if (!done)
                PyErr_NoMemory();
        }
    }
    release_arrays(views, held);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

PyObject *screen_cells(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *plan, *given[TO_SCREEN];
    double slope;
    if (!PyArg_ParseTuple(args, "OOO!dO", &given[CODES], &given[DEFICITS], &PyTuple_Type, &plan, &slope,
                          &given[LEAVING]))
        return NULL;
    return run(plan, given, TO_SCREEN, slope);
}

PyObject *move_cells(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *plan, *given[TO_MOVE];
    double slope;
    if (!PyArg_ParseTuple(args, "OOOOOO!dO", &given[CODES], &given[VISITED], &given[LEAVING], &given[BARS],
                          &given[DEFICITS], &PyTuple_Type, &plan, &slope, &given[MOVED]))
        return NULL;
    return run(plan, given, TO_MOVE, slope);
}
