/* The compiled loops as one module, and the one that counts rows; kernels.py says what the arguments mean.
 *
 * No call reaches outside its arrays: each is checked for its kind and its length, every code against the size of its
 * column, and every number of a plan before it is followed. The loops run without the interpreter's lock.
 */

#include "kernels.h"
#include <stdlib.h>
#include <string.h>

/* The cell numbers of this many rows stay in the first-level cache. */
enum { PIECE = 1 << 11 };

/* Rows that follow each other often fall into the same cell, and adding to it twice in a row makes the processor wait:
 * even and odd rows of small tables are counted apart. */
enum { APART_UP_TO = 1 << 14 };

/* Cells are numbered with 32 bits. */
#define MAX_CELLS (UINT32_MAX + UINT64_C(1))

int set_value_error(const char *words)
{
    PyErr_SetString(PyExc_ValueError, words);
    return 0;
}

/* Ask for an array; return 0, with an error set and nothing held, if it is of another kind. */
static int get_array(PyObject *object, Py_buffer *view, Kind kind)
{
    if (PyObject_GetBuffer(object, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | kind.flags) < 0)
        return 0;
    const char *format = view->format ? view->format : "B";
    int known = strlen(format) == 1 && strchr(kind.letters, format[0]);
    if (known && view->ndim == kind.axes && (!kind.size || view->itemsize == kind.size) &&
        (uintptr_t)view->buf % (uintptr_t)view->itemsize == 0)
        return 1;
    PyBuffer_Release(view);
    return set_value_error("an array holds another kind of number, or has another number of axes");
}

/* Tell whether two arrays have a byte in common. */
static int overlap(const Py_buffer *one, const Py_buffer *other)
{
    uintptr_t start = (uintptr_t)one->buf, next = (uintptr_t)other->buf;
    return one->len && other->len && start < next + (uintptr_t)other->len && next < start + (uintptr_t)one->len;
}

Py_ssize_t get_arrays(PyObject *const *given, Py_buffer *views, const Kind *kinds, Py_ssize_t number)
{
    const Kind list = {"lq", 8, 1, 0};
    for (Py_ssize_t i = 0; i < number; i++)
        if (!get_array(given[i], &views[i], kinds[i].letters ? kinds[i] : list))
            return i;
    for (Py_ssize_t i = 0; i < number; i++)
        for (Py_ssize_t j = 0; kinds[i].flags && j < number; j++)
            if (i != j && overlap(&views[i], &views[j])) {
                set_value_error("an array that is written to shares memory with another");
                return number;
            }
    return number;
}

void release_arrays(Py_buffer *views, Py_ssize_t held)
{
    while (held)
        PyBuffer_Release(&views[--held]);
}

/* Write cells · size + codes into cells; return 0 if a code is not below the size. */
#define APPEND(name, type)                                                                                             \
    WIDE static int name(uint32_t *restrict cells, const type *restrict codes, Py_ssize_t rows, uint64_t size)         \
    {                                                                                                                  \
        type largest = 0;                                                                                              \
        for (Py_ssize_t row = 0; row < rows; row++) {                                                                  \
            type code = codes[row];                                                                                    \
            largest = code > largest ? code : largest;                                                                 \
            cells[row] = cells[row] * (uint32_t)size + code;                                                           \
        }                                                                                                              \
        return largest < size;                                                                                         \
    }
APPEND(append_8, uint8_t)
APPEND(append_16, uint16_t)
APPEND(append_32, uint32_t)

static int append(uint32_t *cells, const Py_buffer *column, Py_ssize_t start, Py_ssize_t rows, uint64_t size)
{
    if (column->itemsize == 1)
        return append_8(cells, (const uint8_t *)column->buf + start, rows, size);
    if (column->itemsize == 2)
        return append_16(cells, (const uint16_t *)column->buf + start, rows, size);
    return append_32(cells, (const uint32_t *)column->buf + start, rows, size);
}

/* Tell whether there are cells of these numbers. Codes may change under our eyes; their cells' numbers are ours. */
WIDE static int cells_exist(const uint32_t *cells, Py_ssize_t rows, Py_ssize_t end)
{
    uint32_t largest = 0;
    for (Py_ssize_t row = 0; row < rows; row++)
        largest = cells[row] > largest ? cells[row] : largest;
    return largest < (uint64_t)end;
}

/* Count the rows of each cell; return 0 if a code lies outside its domain. */
static int count(const Py_buffer *columns, const uint64_t *sizes, Py_ssize_t number, Py_ssize_t rows, int64_t *even,
                 int64_t *odd, Py_ssize_t end)
{
    uint32_t cells[PIECE];
    for (Py_ssize_t start = 0; start < rows; start += PIECE) {
        Py_ssize_t here = rows - start < PIECE ? rows - start : PIECE;
        memset(cells, 0, sizeof cells);
        for (Py_ssize_t i = 0; i < number; i++)
            if (!append(cells, &columns[i], start, here, sizes[i]))
                return 0;
        if (!cells_exist(cells, here, end))
            return 0;
        for (Py_ssize_t row = 0; row + 1 < here; row += 2) {
            even[cells[row]]++;
            odd[cells[row + 1]]++;
        }
        if (here % 2)
            even[cells[here - 1]]++;
    }
    return 1;
}

/* Count with a second table for odd rows where that is worth it. */
static int count_apart(const Py_buffer *columns, const uint64_t *sizes, Py_ssize_t number, Py_ssize_t rows,
                       int64_t *counts, Py_ssize_t cells)
{
    int64_t *odd = cells <= APART_UP_TO && cells <= rows ? calloc((size_t)cells, sizeof *odd) : NULL;
    int within = count(columns, sizes, number, rows, counts, odd ? odd : counts, cells);
    for (Py_ssize_t cell = 0; odd && cell < cells; cell++)
        counts[cell] += odd[cell];
    free(odd);
    return within;
}

static int sizes_match(const uint64_t *sizes, Py_ssize_t number, Py_ssize_t cells)
{
    uint64_t product = 1;
    for (Py_ssize_t i = 0; i < number; i++) {
        if (sizes[i] > MAX_CELLS || (sizes[i] && product > MAX_CELLS / sizes[i]))
            return set_value_error("a table is too large");
        product *= sizes[i];
    }
    return product == (uint64_t)cells || set_value_error("the counts have another number of cells than their columns");
}

static int count_fits(const Py_buffer *columns, const uint64_t *sizes, Py_ssize_t number, const Py_buffer *counts)
{
    for (Py_ssize_t i = 0; i < number; i++)
        if (overlap(&columns[i], counts))
            return set_value_error("the counts share memory with a column");
    return sizes_match(sizes, number, counts->shape[0]);
}

/* Take the columns and their sizes; return how many of the columns are held, all of them if no error is set. */
static Py_ssize_t take_columns(PyObject *given, PyObject *lengths, Py_buffer *columns, uint64_t *sizes)
{
    Py_ssize_t number = PyTuple_Size(given);
    for (Py_ssize_t i = 0; i < number; i++) {
        sizes[i] = PyLong_AsUnsignedLongLong(PyTuple_GetItem(lengths, i));
        if (PyErr_Occurred() || !get_array(PyTuple_GetItem(given, i), &columns[i], (Kind){"BHIL", 0, 1, 0}))
            return i;
        if (columns[i].itemsize > 4 || columns[i].shape[0] != columns[0].shape[0]) {
            set_value_error("a column does not hold codes, or has another length than the first");
            return i + 1;
        }
    }
    return number;
}

PyObject *count_columns(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *given, *lengths, *table;
    if (!PyArg_ParseTuple(args, "O!O!O", &PyTuple_Type, &given, &PyTuple_Type, &lengths, &table))
        return NULL;
    Py_ssize_t number = PyTuple_Size(given), held = 0;
    if (!number || PyTuple_Size(lengths) != number)
        return set_value_error("there must be a size for each of one or more columns"), NULL;
    Py_buffer counts, *columns = PyMem_Malloc((size_t)number * sizeof *columns);
    uint64_t *sizes = PyMem_Malloc((size_t)number * sizeof *sizes);
    if (!columns || !sizes) {
        PyErr_NoMemory();
    } else if (get_array(table, &counts, (Kind){"lq", 8, 1, PyBUF_WRITABLE})) {
        held = take_columns(given, lengths, columns, sizes);
        if (!PyErr_Occurred() && count_fits(columns, sizes, number, &counts)) {
            int within;
            Py_BEGIN_ALLOW_THREADS
            within = count_apart(columns, sizes, number, columns[0].shape[0], counts.buf, counts.shape[0]);
            Py_END_ALLOW_THREADS
            if (!within)
                PyErr_SetString(PyExc_IndexError, "a code lies outside its domain");
        }
        release_arrays(columns, held);
        PyBuffer_Release(&counts);
    }
    PyMem_Free(columns);
    PyMem_Free(sizes);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static PyMethodDef functions[] = {
    {"count_columns", count_columns, METH_VARARGS, "Add the rows in each combination of columns to counts."},
    {"screen_cells", screen_cells, METH_VARARGS, "Do what cell_moves.screen_rows does."},
    {"move_cells", move_cells, METH_VARARGS, "Do what cell_moves.move_rows does."},
    {"scale_to_target", scale_to_target, METH_VARARGS, "Scale a table and its potential towards a target."},
    {"scale_to_separator", scale_to_separator, METH_VARARGS, "Scale a table to the separator of another."},
    {"eliminate_variables", eliminate_variables, METH_VARARGS, "Find the cliques of an elimination of variables."},
    {"project_onto_simplex", project_onto_simplex, METH_VARARGS, "Do what inference.fit.projection.norm_sub does."},
    {"weight_estimators", weight_estimators, METH_VARARGS, "Find the weights of inference.fit.denoise."},
    {"split_tables", split_tables, METH_VARARGS, "Do what inference.hierarchy.transportation does."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_kernels", "The compiled loops.", 0, functions,
                                    slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__kernels(void)
{
    return PyModuleDef_Init(&module);
}
