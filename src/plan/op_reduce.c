/* op_reduce.c - sums of rows: the gradients of biases, and of weights that scale.
 *
 * PyTorch's kernel gives each column's rows to several blocks of threads where there are many, and
 * their shares meet in a buffer. That is larger than one would think: as large as two of the
 * tensors that are summed. The rules are those of setReduceConfig() in ATen's Reduce.cuh; the
 * card's numbers are an H200's. */
#include "plan/op.h"

enum {
    MOST_THREADS = 512,
    WARP = 32,
    FEWEST_VALUES = 16, /* that a thread adds up */
    MOST_VALUES = 256,
    PROCESSORS = 132,
    THREADS_OF_PROCESSOR = 2048,
};

static uint64_t divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t power_of_two_below(uint64_t value, uint64_t most)
{
    uint64_t power = 1;
    while (power * 2 <= smaller(value, most))
        power *= 2;
    return power;
}

/* Columns that a thread reads at once. */
static uint64_t vector_of(uint64_t columns)
{
    uint64_t vector = 4;
    while (columns % vector != 0)
        vector /= 2;
    return vector;
}

/* float32 numbers in the buffer; 0 where no column is shared. */
static uint64_t buffer_elements(vw__tape *tape, uint64_t rows, uint64_t columns)
{
    uint64_t vector = vector_of(columns), most = MOST_THREADS / vector;
    uint64_t width = smaller(power_of_two_below(columns / vector, most), WARP);
    uint64_t height = smaller(power_of_two_below(rows, most), most / width);
    width = smaller(power_of_two_below(columns / vector, most), most / height);
    uint64_t values = divide_up(rows, height); /* of a thread */
    uint64_t grid = divide_up(columns / vector, width);
    uint64_t wanted = PROCESSORS * (THREADS_OF_PROCESSOR / (width * height));
    if (values < MOST_VALUES || grid > wanted)
        return 0;
    uint64_t blocks = smaller(divide_up(wanted, grid), divide_up(values, FEWEST_VALUES));
    uint64_t least = divide_up(values, MOST_VALUES);
    if (blocks < least)
        blocks = least;
    return blocks > 1 ? vw__times(tape, columns, blocks * width * vector) : 0;
}

void vw__node_sum_rows_for(vw__tape *tape, size_t edge, uint64_t rows, uint64_t columns,
                           vw__dtype dtype)
{
    if (!vw__node_wants(tape, edge))
        return;
    vw__node_return(tape);
    vw__node_take_for(tape, edge, columns, dtype);
    uint64_t elements = columns == 0 ? 0 : buffer_elements(tape, rows, columns);
    if (elements > 0)
        vw__node_let_go(tape, vw__node_take(tape, elements, VW__FLOAT32));
}
