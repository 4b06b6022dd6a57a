/* Plans, checked: the loops follow their numbers without looking. */

#include "cell_move_plan.h"

CellMovePlan as_plan(const Py_buffer *views)
{
    return (CellMovePlan){
        .sizes = views[SIZES].buf, .places = views[PLACES].buf, .table_of = views[TABLE_OF].buf,
        .tables = views[TABLES].buf, .starts = views[STARTS].buf,
        .ends = views[ENDS].buf, .class_starts = views[CLASS_STARTS].buf, .classes = views[CLASSES].buf,
        .allowed = views[ALLOWED].buf, .corners = views[CORNERS].buf, .rules = views[RULES].buf,
        .members = views[MEMBERS].buf, .watched = views[WATCHED].buf, .guards = views[GUARDS].buf,
        .columns = views[SIZES].shape[0], .table_count = views[TABLES].shape[0] - 1,
    };
}

/* Tell whether `count` lists of at least `least` numbers follow each other from 0 to `end`. */
static int follow(const Py_buffer *view, int64_t count, int64_t end, int64_t least)
{
    const int64_t *starts = view->buf;
    if (view->shape[0] != count + 1 || starts[0] != 0 || starts[count] != end)
        return 0;
    for (int64_t i = 0; i < count; i++)
        if (starts[i + 1] < starts[i] || starts[i + 1] - starts[i] < least)
            return 0;
    return 1;
}

int all_below(const Py_buffer *view, int64_t end)
{
    const int64_t *numbers = view->buf;
    for (Py_ssize_t i = 0; i < view->shape[0]; i++)
        if (numbers[i] < 0 || numbers[i] >= end)
            return 0;
    return 1;
}

/* Take stride · (size − 1) from what is left to the last cell; below 0 if it does not reach. */
static int64_t remaining_cells(int64_t left, int64_t stride, int64_t size)
{
    if (left < 0 || stride < 0 || (size > 1 && stride > left / (size - 1)))
        return -1;
    return left - stride * (size - 1);
}

static int place_fits(const CellMovePlan *plan, const Place *at, int64_t cells)
{
    if (at->own < 0 || at->own >= plan->columns || at->second < 0 || at->second >= plan->columns || at->third < 0 ||
        at->third >= plan->columns || at->offset < 0 || at->offset >= cells)
        return 0;
    int64_t left = remaining_cells(cells - 1 - at->offset, 1, plan->sizes[at->own]);
    left = remaining_cells(left, at->stride, plan->sizes[at->second]);
    return remaining_cells(left, at->step, plan->sizes[at->third]) >= 0;
}

/* Write the largest class of every column: its rules, which may be many, need not look for it. */
static void find_last(const CellMovePlan *plan, int64_t *last)
{
    for (int64_t column = 0; column < plan->columns; column++) {
        int64_t largest = 0;
        for (int64_t code = plan->class_starts[column]; code < plan->class_starts[column + 1]; code++)
            largest = plan->classes[code] > largest ? plan->classes[code] : largest;
        last[column] = largest;
    }
}

static int rule_fits(const CellMovePlan *plan, int64_t rule, const int64_t *last, int64_t cells)
{
    int64_t left = plan->corners[rule] < 0 ? -1 : cells - 1 - plan->corners[rule];
    for (int64_t i = plan->rules[rule]; i < plan->rules[rule + 1]; i++) {
        int64_t column = plan->members[i].column;
        if (column < 0 || column >= plan->columns)
            return 0;
        left = remaining_cells(left, plan->members[i].stride, last[column] + 1);
    }
    return left >= 0;
}

/* Tell whether the lists of a plan have the lengths they should, and numbers of what exists. */
static int lists_fit(const CellMovePlan *plan, const Py_buffer *views)
{
    int64_t columns = plan->columns, places = views[PLACES].shape[0], rules = views[RULES].shape[0] - 1;
    return views[PLACES].shape[1] == 6 && views[MEMBERS].shape[1] == 2 && views[TABLE_OF].shape[0] == places &&
           rules >= 0 && plan->table_count >= 0 && views[CORNERS].shape[0] >= rules && all_below(&views[SIZES], INT64_C(1) << 32) &&
           all_below(&views[TABLE_OF], plan->table_count) && all_below(&views[ENDS], places) &&
           all_below(&views[CLASSES], INT64_C(1) << 32) && all_below(&views[GUARDS], rules) &&
           follow(&views[TABLES], plan->table_count, places, 1) &&
           follow(&views[STARTS], columns, views[ENDS].shape[0], 0) &&
           follow(&views[CLASS_STARTS], columns, views[CLASSES].shape[0], 0) &&
           follow(&views[RULES], rules, views[MEMBERS].shape[0], 0) &&
           follow(&views[WATCHED], columns, views[GUARDS].shape[0], 0);
}

static int columns_fit(const CellMovePlan *plan)
{
    for (int64_t column = 0; column < plan->columns; column++) {
        if (plan->sizes[column] < 1 ||
            plan->class_starts[column + 1] - plan->class_starts[column] < plan->sizes[column])
            return 0;
        for (int64_t i = plan->starts[column]; i < plan->starts[column + 1]; i++)
            if (plan->places[plan->ends[i]].own != column)
                return 0;
    }
    return 1;
}

int plan_fits(const CellMovePlan *plan, const Py_buffer *views, int64_t cells)
{
    int fits = lists_fit(plan, views) && columns_fit(plan);
    for (Py_ssize_t place = 0; fits && place < views[PLACES].shape[0]; place++)
        fits = place_fits(plan, &plan->places[place], cells);
    int64_t *last = PyMem_Malloc(((size_t)plan->columns + 1) * sizeof *last);
    if (!last)
        return PyErr_NoMemory(), 0;
    if (fits)
        find_last(plan, last);
    for (Py_ssize_t rule = 0; fits && rule < views[RULES].shape[0] - 1; rule++)
        fits = rule_fits(plan, rule, last, views[ALLOWED].shape[0]);
    PyMem_Free(last);
    return fits || set_value_error("the plan leads outside its arrays");
}
