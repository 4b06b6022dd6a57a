/* The loops of projection.py and denoise.py of inference/fit, compiled; those files say what they do. Sums are taken
 * in another order than NumPy's, so both agree to the last digits only.
 */

#include "kernels.h"
#include <math.h>

enum { MAX_ESTIMATORS = 16 };

/* The constant that every cell gives up: the mean excess of the cells that stay above it, found by leaving out those
 * that do not until all do (Michelot 1986). */
static double simplex_shift(const double *values, Py_ssize_t cells, double total)
{
    double excess = -INFINITY;
    for (Py_ssize_t kept = cells + 1;;) {
        double sum = 0.0;
        Py_ssize_t here = 0;
        for (Py_ssize_t i = 0; i < cells; i++)
            if (values[i] > excess) {
                sum += values[i];
                here++;
            }
        if (!here || here >= kept)
            return excess;
        kept = here;
        excess = (sum - total) / (double)here;
    }
}

static void project(const double *restrict values, double *restrict out, Py_ssize_t cells, double total)
{
    double excess = simplex_shift(values, cells, total), sum = 0.0;
    for (Py_ssize_t i = 0; i < cells; i++) {
        out[i] = values[i] > excess ? values[i] - excess : 0.0;
        sum += out[i];
    }
    for (Py_ssize_t i = 0; i < cells; i++)
        out[i] = sum > 0 ? out[i] * (total / sum) : total / (double)cells;
}

PyObject *project_onto_simplex(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *given[2];
    double total;
    if (!PyArg_ParseTuple(args, "OOd", &given[0], &given[1], &total))
        return NULL;
    static const Kind kinds[] = {{"d", 8, 1, 0}, {"d", 8, 1, PyBUF_WRITABLE}};
    Py_buffer views[2];
    Py_ssize_t held = get_arrays(given, views, kinds, 2);
    if (!PyErr_Occurred()) {
        if (views[0].len != views[1].len)
            set_value_error("two arrays differ in length");
        else if (views[0].len) {
            Py_BEGIN_ALLOW_THREADS
            project(views[0].buf, views[1].buf, views[0].shape[0], total);
            Py_END_ALLOW_THREADS
        }
    }
    release_arrays(views, held);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* Solve a system of equations in place, the largest pivot first; its last column becomes the solution. */
static void solve(double system[][MAX_ESTIMATORS + 2], int size)
{
    for (int done = 0; done < size; done++) {
        int best = done;
        for (int row = done + 1; row < size; row++)
            if (fabs(system[row][done]) > fabs(system[best][done]))
                best = row;
        for (int i = done; i <= size; i++) {
            double swapped = system[done][i];
            system[done][i] = system[best][i];
            system[best][i] = swapped;
        }
        for (int row = done + 1; row < size; row++) {
            double factor = system[done][done] != 0.0 ? system[row][done] / system[done][done] : 0.0;
            for (int i = done; i <= size; i++)
                system[row][i] -= factor * system[done][i];
        }
    }
    for (int row = size - 1; row >= 0; row--) {
        double value = system[row][size];
        for (int i = row + 1; i < size; i++)
            value -= system[row][i] * system[i][size];
        system[row][size] = system[row][row] != 0.0 ? value / system[row][row] : 0.0;
    }
}

static void weigh(const double *products, const double *prior, double *weights, int count, int rounds, double close)
{
    double slopes[MAX_ESTIMATORS], system[MAX_ESTIMATORS + 1][MAX_ESTIMATORS + 2];
    for (int i = 0; i < count; i++)
        weights[i] = prior[i];
    while (rounds-- > 0) {
        double mean = 0.0, least = INFINITY, sum = 0.0;
        for (int i = 0; i < count; i++) {
            slopes[i] = 0.5 * products[i * count + i] + log(weights[i] / prior[i]);
            for (int j = 0; j < count; j++)
                slopes[i] += products[i * count + j] * weights[j];
            mean += weights[i] * slopes[i];
            least = slopes[i] < least ? slopes[i] : least;
        }
        if (mean - least < close)
            return;
        for (int i = 0; i < count; i++) {
            for (int j = 0; j < count; j++)
                system[i][j] = products[i * count + j] * weights[i] * weights[j] + (i == j ? weights[i] : 0.0);
            system[i][count] = system[count][i] = weights[i];
            system[i][count + 1] = -slopes[i] * weights[i];
        }
        system[count][count] = system[count][count + 1] = 0.0;
        solve(system, count + 1);
        for (int i = 0; i < count; i++) {
            double factor = 1 + system[i][count + 1];
            factor = factor < 0.1 ? 0.1 : factor > 10.0 ? 10.0 : factor;
            weights[i] *= factor;
            /* What is no number stays none. */
            weights[i] = weights[i] < 1e-30 ? 1e-30 : weights[i];
            sum += weights[i];
        }
        for (int i = 0; i < count; i++)
            weights[i] /= sum;
    }
}

PyObject *weight_estimators(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *given[3];
    int rounds;
    double close;
    if (!PyArg_ParseTuple(args, "OOOid", &given[0], &given[1], &given[2], &rounds, &close))
        return NULL;
    static const Kind kinds[] = {{"d", 8, 2, 0}, {"d", 8, 1, 0}, {"d", 8, 1, PyBUF_WRITABLE}};
    Py_buffer views[3];
    Py_ssize_t held = get_arrays(given, views, kinds, 3);
    if (!PyErr_Occurred()) {
        Py_ssize_t count = views[2].shape[0];
        if (count > MAX_ESTIMATORS)
            set_value_error("there are too many estimators");
        else if (views[0].shape[0] != count || views[0].shape[1] != count || views[1].shape[0] != count)
            set_value_error("arrays differ in length");
        else
            weigh(views[0].buf, views[1].buf, views[2].buf, (int)count, rounds, close);
    }
    release_arrays(views, held);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}
