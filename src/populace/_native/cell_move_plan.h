/* The plan of cell_moves.py, as the compiled loops read it. */

#ifndef POPULACE_CELL_MOVE_PLAN_H
#define POPULACE_CELL_MOVE_PLAN_H

#include "kernels.h"

/* The fields of cell_moves.CellMovePlan, in its order. */
enum { SIZES, PLACES, TABLE_OF, TABLES, STARTS, ENDS, CLASS_STARTS, CLASSES, ALLOWED, CORNERS, RULES, MEMBERS,
       WATCHED, GUARDS, FIELDS };

/* A row of CellMovePlan.places: the column that lies side by side, where the table begins, two columns with strides. */
typedef struct {
    int64_t own, offset, second, stride, third, step;
} Place;

typedef struct {
    int64_t column, stride;
} Member;

typedef struct {
    const int64_t *sizes, *table_of, *tables, *starts, *ends, *class_starts, *classes, *allowed, *corners, *rules;
    const int64_t *watched, *guards;
    const Place *places;
    const Member *members;
    int64_t columns, table_count;
} CellMovePlan;

/* See the arrays of a plan as one. */
CellMovePlan as_plan(const Py_buffer *views);

/* Tell whether every number of a plan leads to a place inside its arrays and inside `cells` deficits; if not, an error
 * is set. */
int plan_fits(const CellMovePlan *plan, const Py_buffer *views, int64_t cells);

/* Tell whether all numbers of an array are from 0 to `end` − 1. */
int all_below(const Py_buffer *view, int64_t end);

#endif
