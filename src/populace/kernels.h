/* What the compiled loops share: how they take arrays and how they refuse them. */

#ifndef POPULACE_KERNELS_H
#define POPULACE_KERNELS_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>

/* On processors with wider registers the same loops run wider; what they compute is the same. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif

/* Set an error and return 0. */
int complain(const char *words);

/* Ask for an array of numbers of one of some kinds (letters as in Python's struct) and, unless 0, of `size` bytes;
 * return 0, with an error set and nothing held, if it is another. */
int take(PyObject *object, Py_buffer *view, const char *kinds, int size, int axes, int flags);

/* Give back the first `held` arrays. */
void release(Py_buffer *views, Py_ssize_t held);

PyObject *count_columns(PyObject *module, PyObject *args);
PyObject *screen_cells(PyObject *module, PyObject *args);
PyObject *move_cells(PyObject *module, PyObject *args);

#endif
