/* One two-way table with given sums of rows and columns, as the loops of transportation.c and
 * integer_transportation.c see it: rows and columns whose sum is 0 were left out. */

#ifndef POPULACE_TRANSPORTATION_H
#define POPULACE_TRANSPORTATION_H

#include "kernels.h"

/* A count in fixed point: the fractions of a table are multiples of 1 / ONE, so that its sums are exact. */
#define ONE (INT64_C(1) << 20)
#define MAX_COUNT (INT64_C(1) << 40)

typedef struct {
    Py_ssize_t rows, columns;
    double *target, *real, *variance;                /* rows × columns twice, rows */
    unsigned char *allowed;                          /* rows × columns */
    int64_t *fixed, *row_sums, *column_sums;         /* rows × columns, rows, columns */
    double *shift, *trial, *residual, *next, *step;  /* columns each */
    double *sorted, *system, *cost, *distance;       /* columns, columns², columns², columns */
    Py_ssize_t *best, *slot_rows, *nodes, *parents;  /* columns², columns + 1, 2 · columns + 2 twice */
    Py_ssize_t *active_rows, *active_columns, *before;  /* rows, columns, columns */
    unsigned char *live;                             /* (columns + 1) × columns */
} Table;

/* Round a table in fixed point to integers with the same sums. */
void round_table(Table *table);

/* Move single units around cycles as long as the squared error falls, up to a limit of work. */
void improve_table(Table *table);

#endif
