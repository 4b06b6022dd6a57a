/* What the compiled loops share: how they take arrays and how they refuse them.
 *
 * An array that a loop writes to shares no memory with another of the call; this is checked. Nobody else may write to
 * the arrays of a plan and of its rows during a call, for what was checked is then followed. Columns to count are
 * another matter: they may be mapped from a file, and whatever is written to it meanwhile leads nowhere else.
 */

#ifndef POPULACE_KERNELS_H
#define POPULACE_KERNELS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

/* On processors with wider registers the same loops run wider; what they compute is the same. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

/* Set a ValueError and return 0. */
int set_value_error(const char *words);

/* What an array holds: numbers of one of some types (letters as in Python's struct; without any, a list of whole numbers
 * is meant), of `size` bytes unless that is 0, along some axes, and flags: PyBUF_WRITABLE if it is written to. */
typedef struct {
    const char *letters;
    int size, axes, flags;
} Kind;

/* Take the arrays of a call; return how many are held, all of them if no error is set. Those that are written to share
 * no memory with others. */
Py_ssize_t get_arrays(PyObject *const *given, Py_buffer *views, const Kind *kinds, Py_ssize_t number);

/* Give back the first `held` arrays. */
void release_arrays(Py_buffer *views, Py_ssize_t held);

PyObject *count_columns(PyObject *module, PyObject *args);
PyObject *screen_cells(PyObject *module, PyObject *args);
PyObject *move_cells(PyObject *module, PyObject *args);
PyObject *scale_to_target(PyObject *module, PyObject *args);
PyObject *scale_to_separator(PyObject *module, PyObject *args);
PyObject *eliminate_variables(PyObject *module, PyObject *args);
PyObject *project_onto_simplex(PyObject *module, PyObject *args);
PyObject *weight_estimators(PyObject *module, PyObject *args);
PyObject *split_tables(PyObject *module, PyObject *args);

#endif
