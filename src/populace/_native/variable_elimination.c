/* Variable elimination, as inference/graph/junction_tree.py does it; kernels.py says what the arguments mean.
 *
 * A set of columns is a row of words, a column a bit of it.
 */

#include "kernels.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    int64_t columns, words, by_edges;
    const int64_t *costs;
    uint64_t *neighbours;
} Graph;

/* What a column costs: whether edges must be added, and the price among those of the same kind. */
typedef struct {
    int adds;
    int64_t price;
} Cost;

static int has(const uint64_t *set, int64_t column)
{
    return set[column >> 6] >> (column & 63) & 1;
}

/* Run through the columns of a set. */
#define EACH(column, set, words)                                                                                       \
    for (int64_t word_ = 0, column = 0; word_ < (words); word_++)                                                      \
        for (uint64_t rest_ = (set)[word_]; rest_ && (column = (word_ << 6) + lowest(rest_), 1); rest_ &= rest_ - 1)

static int64_t lowest(uint64_t word)
{
#if defined(__GNUC__)
    return __builtin_ctzll(word);
#else
    int64_t place = 0;
    while (!(word >> place & 1))
        place++;
    return place;
#endif
}

/* Tell whether a set holds nothing outside another, and add up the costs of what it does hold. */
static int inside(const Graph *graph, const uint64_t *set, const uint64_t *other, int64_t *missing)
{
    int within = 1;
    for (int64_t word = 0; word < graph->words; word++) {
        uint64_t apart = set[word] & ~other[word];
        if (!apart)
            continue;
        within = 0;
        if (!missing)
            break;
        EACH(column, &apart, 1)
            *missing += graph->costs[(word << 6) + column];
    }
    return within;
}

static Cost cost(const Graph *graph, int64_t column)
{
    const uint64_t *table = graph->neighbours + column * graph->words;
    Cost found = {0, 0};
    EACH(other, table, graph->words) {
        int64_t missing = 0;
        if (!inside(graph, table, graph->neighbours + other * graph->words, graph->by_edges ? &missing : NULL))
            found.adds = 1;
        found.price += graph->by_edges ? graph->costs[other] * missing : graph->costs[other];
    }
    return found;
}

/* Join each column with the others of the cliques it lies in. */
static void join(const Graph *graph, const uint64_t *cliques, int64_t number)
{
    memset(graph->neighbours, 0, (size_t)(graph->columns * graph->words) * sizeof *graph->neighbours);
    for (int64_t column = 0; column < graph->columns; column++)
        graph->neighbours[column * graph->words + (column >> 6)] |= UINT64_C(1) << (column & 63);
    for (int64_t clique = 0; clique < number; clique++)
        EACH(column, cliques + clique * graph->words, graph->words)
            for (int64_t word = 0; word < graph->words; word++)
                graph->neighbours[column * graph->words + word] |= cliques[clique * graph->words + word];
}

/* Take a column out, its neighbours joined; write to `touched` whose costs may have changed. */
static void eliminate_column(const Graph *graph, int64_t column, int adds, uint64_t *rest, uint64_t *touched)
{
    int64_t words = graph->words;
    uint64_t own = UINT64_C(1) << (column & 63);
    memcpy(rest, graph->neighbours + column * words, (size_t)words * sizeof *rest);
    rest[column >> 6] &= ~own;
    memcpy(touched, rest, (size_t)words * sizeof *rest);
    EACH(other, rest, words) {
        uint64_t *neighbours = graph->neighbours + other * words;
        for (int64_t word = 0; word < words; word++)
            neighbours[word] |= rest[word];
        neighbours[column >> 6] &= ~own;
        /* New edges may complete the neighbourhood of columns next to their ends. */
        for (int64_t word = 0; adds && word < words; word++)
            touched[word] |= neighbours[word];
    }
}

/* Write the tables of an elimination, mark in `kept` those that lie in no earlier one, and tell whether no edge was
 * added; `costs` and `work` have room for all columns and for two sets. */
static int eliminate(const Graph *graph, uint64_t *tables, uint8_t *kept, Cost *costs, uint64_t *work)
{
    int64_t words = graph->words;
    int chordal = 1;
    for (int64_t column = 0; column < graph->columns; column++)
        costs[column] = cost(graph, column);
    for (int64_t step = 0; step < graph->columns; step++) {
        int64_t best = -1;
        for (int64_t column = 0; column < graph->columns; column++)
            if (costs[column].adds >= 0 &&
                (best < 0 || costs[column].adds < costs[best].adds ||
                 (costs[column].adds == costs[best].adds && costs[column].price < costs[best].price)))
                best = column;
        uint64_t *table = tables + step * words;
        memcpy(table, graph->neighbours + best * words, (size_t)words * sizeof *table);
        int adds = costs[best].adds;
        chordal &= !adds;
        kept[step] = 1;
        for (int64_t earlier = 0; kept[step] && earlier < step; earlier++)
            if (has(tables + earlier * words, best) && inside(graph, table, tables + earlier * words, NULL))
                kept[step] = 0;
        costs[best].adds = -1;
        eliminate_column(graph, best, adds, work, work + words);
        EACH(other, work + words, words)
            costs[other] = cost(graph, other);
    }
    return chordal;
}

/* Tell whether all columns of the sets exist. */
static int sets_fit(const uint64_t *sets, int64_t number, int64_t words, int64_t columns)
{
    for (int64_t set = 0; set < number; set++)
        EACH(column, sets + set * words, words)
            if (column >= columns)
                return 0;
    return 1;
}

PyObject *eliminate_variables(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *given[4];
    int by_edges, chordal = 0;
    if (!PyArg_ParseTuple(args, "OOpOO", &given[0], &given[1], &by_edges, &given[2], &given[3]))
        return NULL;
    static const Kind kinds[] = {
        {"LQ", 8, 2, 0}, {"lq", 8, 1, 0}, {"LQ", 8, 2, PyBUF_WRITABLE}, {"B?", 1, 1, PyBUF_WRITABLE}};
    Py_buffer views[4];
    Py_ssize_t held = get_arrays(given, views, kinds, 4);
    if (!PyErr_Occurred()) {
        int64_t columns = views[1].shape[0], words = views[0].shape[1];
        uint64_t *neighbours = PyMem_Calloc((size_t)(columns * words + 2 * words + 1), sizeof *neighbours);
        Cost *costs = PyMem_Calloc((size_t)columns + 1, sizeof *costs);
        if (!neighbours || !costs) {
            PyErr_NoMemory();
        } else if (views[2].shape[0] != columns || views[2].shape[1] != words || views[3].shape[0] != columns ||
                   (columns + 63) / 64 > words || !sets_fit(views[0].buf, views[0].shape[0], words, columns)) {
            set_value_error("the sets do not fit their columns");
        } else {
            Graph graph = {columns, words, by_edges, views[1].buf, neighbours};
            Py_BEGIN_ALLOW_THREADS
            join(&graph, views[0].buf, views[0].shape[0]);
            chordal = eliminate(&graph, views[2].buf, views[3].buf, costs, neighbours + columns * words);
            Py_END_ALLOW_THREADS
        }
        PyMem_Free(neighbours);
        PyMem_Free(costs);
    }
    release_arrays(views, held);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(chordal);
}
