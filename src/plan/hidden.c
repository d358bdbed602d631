/* hidden.c - the rules of hidden.h, and where they come from. */
#include "plan/hidden.h"

#include "vramwise/plan.h"
#include "base/checked_math.h"

enum { FLOAT32_BYTES = 4, INT64_BYTES = 8 };

/* The product, or UINT64_MAX where it is larger than that. */
static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product = UINT64_MAX;
    (void)vw__mul_u64(a, b, &product);
    return product;
}

static uint64_t up_to(uint64_t value, uint64_t step)
{
    uint64_t aligned = UINT64_MAX;
    (void)vw__align_up_u64(value, step, &aligned);
    return aligned;
}

/* Returns the step, for let_go(). Nothing is taken for 0 bytes. */
static size_t take(vw__hidden *hidden, uint64_t elements, uint64_t element_bytes)
{
    uint64_t size_bytes = times(elements, element_bytes);
    if (size_bytes > 0)
        hidden->steps[hidden->count++] = (vw__hidden_step){.size_bytes = size_bytes};
    return size_bytes > 0 ? hidden->count - 1 : VW__HIDDEN_MOST;
}

static void let_go(vw__hidden *hidden, size_t taken)
{
    if (taken != VW__HIDDEN_MOST)
        hidden->steps[hidden->count++] = (vw__hidden_step){.taken = taken};
}

/* ---- products -------------------------------------------------------------------------------- */

uint64_t vw__hidden_cublas_bytes(const char *card_name)
{
    const vw_plan_card_info *card = vw_plan_card(card_name);
    return card == NULL || card->has_large_workspace ? 32 << 20 : 8519680;
}

/* ---- sums of rows ---------------------------------------------------------------------------- */

/* PyTorch's kernel gives each column's rows to several blocks of threads where there are many, and
 * their shares meet in a buffer, which can be as large as two of the tensors that are summed. The
 * rules are those of setReduceConfig() in ATen's Reduce.cuh; the card's numbers are an H200's. */
enum {
    MOST_THREADS = 512,
    WARP = 32,
    FEWEST_VALUES = 16, /* that a thread adds up */
    MOST_VALUES = 256,
    PROCESSORS = 132,
    THREADS_OF_PROCESSOR = 2048,
};

static uint64_t power_of_two_below(uint64_t value, uint64_t most)
{
    uint64_t power = 1;
    while (power * 2 <= vw__min_u64(value, most))
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
static uint64_t shared_sums(uint64_t outer, uint64_t rows, uint64_t columns)
{
    uint64_t vector = vector_of(columns), most = MOST_THREADS / vector;
    uint64_t width = vw__min_u64(power_of_two_below(columns / vector, most), WARP);
    uint64_t height = vw__min_u64(power_of_two_below(rows, most), most / width);
    width = vw__min_u64(power_of_two_below(columns / vector, most), most / height);
    uint64_t values = vw__ceil_div_u64(rows, height); /* of a thread */
    uint64_t grid = vw__ceil_div_u64(times(outer, columns) / vector, width);
    uint64_t wanted = PROCESSORS * (THREADS_OF_PROCESSOR / (width * height));
    if (values < MOST_VALUES || grid > wanted)
        return 0;
    uint64_t blocks =
        vw__min_u64(vw__ceil_div_u64(wanted, grid), vw__ceil_div_u64(values, FEWEST_VALUES));
    blocks = vw__max_u64(blocks, vw__ceil_div_u64(values, MOST_VALUES));
    return blocks > 1 ? times(times(outer, columns), times(blocks, width * vector)) : 0;
}

vw__hidden vw__hidden_sum(uint64_t outer, uint64_t rows, uint64_t columns)
{
    vw__hidden hidden = {.count = 0};
    if (outer > 0 && columns > 0)
        let_go(&hidden, take(&hidden, shared_sums(outer, rows, columns), FLOAT32_BYTES));
    return hidden;
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* The ids are sorted where there are many. */
vw__hidden vw__hidden_embedding(uint64_t ids)
{
    enum { MANY_IDS = 3072, SORTED_COPIES = 4 };
    vw__hidden hidden = {.count = 0};
    if (ids > MANY_IDS)
        take(&hidden, times(SORTED_COPIES, ids), INT64_BYTES);
    return hidden;
}

/* ---- convolutions ---------------------------------------------------------------------------- */

/* cuDNN has no formula for its workspaces. What it took on Hopper in 30 steps of a ResNet-50, 24 of
 * a U-Net and 6 of a ViT (recorded allocations, cuDNN 9) has one reason nearly everywhere: its fast
 * kernels want channels last. A convolution of tensors in PyTorch's usual layout then copies its
 * image, its result and its weight (of 1x1 kernels both layouts are the same) to that layout and
 * back, in a workspace that holds these copies. The exceptions that were seen:
 *
 * - float32, where every plane has an even number of pixels, and windows do not overlap or there
 *   are only a few channels: there are kernels for the usual layout;
 * - 16 bits, 1x1 convolutions that are plain matrix products, again of even planes;
 * - 16 bits, the gradient of such a convolution's weight, whatever the planes: one for each image,
 *   in float32, which are summed. Weights of a million elements were seen to copy, of 400,000 not;
 *   of 260,000 both, in a ResNet-50 with float16;
 * - one filter for each channel: PyTorch's own kernels.
 *
 * A transposed convolution is the derivative of one whose channels and filters are exchanged.
 * Volumes (bench/torch/measure_workspaces.py) copy for every window of more than one place, but for
 * the result of few channels.
 *
 * In float32 the gradient of a weight is summed in eight parts. What splitting adds elsewhere is a
 * few per cent, and left out. */

enum { LANES = 8 };

/* Channels last are read eight at a time; there is a kernel of its own for up to four. */
static uint64_t padded_channels(uint64_t channels)
{
    enum { FEW = 4 };
    return channels < FEW ? FEW : up_to(channels, LANES);
}

static bool has_even_planes(const vw__op_conv_shape *shape)
{
    vw__op_image_shape out = vw__op_window_shape(&shape->window, &shape->in, shape->out_channels);
    return shape->in.height % 2 * (shape->in.width % 2) == 0 &&
           out.height % 2 * (out.width % 2) == 0;
}

static bool is_plain_product(const vw__op_window *window)
{
    return window->kernel == 1 && window->stride == 1 && window->padding == 0;
}

static bool overlaps(const vw__op_window *window)
{
    return window->kernel > window->stride;
}

static bool needs_workspace(const vw__op_conv_shape *shape, uint64_t element_bytes,
                            vw__hidden_side side)
{
    if (shape->is_channels_last || (shape->groups > 1 && shape->groups == shape->in.channels))
        return false;
    bool has_few = (shape->window.is_transposed ? shape->out_channels : shape->in.channels) < LANES;
    if (vw__op_window_dimensions(&shape->window) == 3)
        return shape->window.kernel > 1 && !(has_few && side == VW__HIDDEN_RESULT);
    bool is_even = has_even_planes(shape);
    if (element_bytes == FLOAT32_BYTES)
        return !is_even || (overlaps(&shape->window) && !has_few);
    return side == VW__HIDDEN_WEIGHT_GRADIENT || !is_even || !is_plain_product(&shape->window);
}

static uint64_t area_of(const vw__op_window *window)
{
    uint64_t area = 1, dimensions = vw__op_window_dimensions(window);
    for (uint64_t i = 0; i < dimensions; i++)
        area = times(area, window->kernel);
    return area;
}

static uint64_t elements_of(const vw__op_image_shape *shape)
{
    uint64_t planes =
        times(times(shape->batch, shape->channels), shape->depth > 0 ? shape->depth : 1);
    return times(planes, times(shape->height, shape->width));
}

/* Elements of the three tensors with their channels last. */
static uint64_t copies(const vw__op_conv_shape *shape)
{
    vw__op_image_shape in = shape->in;
    vw__op_image_shape out = vw__op_window_shape(&shape->window, &in, shape->out_channels);
    uint64_t area = area_of(&shape->window);
    in.channels = padded_channels(in.channels);
    uint64_t sum = vw__add_capped_u64(elements_of(&in), elements_of(&out));
    if (area > 1 && shape->groups > 0)
        sum = vw__add_capped_u64(
            sum, times(times(in.channels / shape->groups, area), shape->out_channels));
    return sum;
}

/* In 16 bits the gradient of a plain product's weight is made for each image, in float32, and then
 * summed; of large weights it is made of copies. */
static bool is_summed_over_images(const vw__op_conv_shape *shape, uint64_t element_bytes,
                                  vw__hidden_side side)
{
    enum { LARGE = 1 << 19 };
    return side == VW__HIDDEN_WEIGHT_GRADIENT && element_bytes != FLOAT32_BYTES &&
           is_plain_product(&shape->window) && shape->groups == 1 &&
           times(shape->in.channels, shape->out_channels) < LARGE;
}

/* Of a weight's gradient, beside the first. */
static uint64_t parts(const vw__op_conv_shape *shape, uint64_t element_bytes, vw__hidden_side side)
{
    enum { OTHERS = 7 };
    uint64_t area = area_of(&shape->window);
    if (side != VW__HIDDEN_WEIGHT_GRADIENT || element_bytes != FLOAT32_BYTES || area == 1 ||
        shape->window.dilation < 2 || shape->groups == 0)
        return 0;
    uint64_t channels = padded_channels(shape->in.channels) / shape->groups;
    return times(OTHERS, times(times(channels, area), shape->out_channels));
}

vw__hidden vw__hidden_convolution(const vw__op_conv_shape *shape, uint64_t element_bytes,
                                  vw__hidden_side side)
{
    vw__hidden hidden = {.count = 0};
    if (!needs_workspace(shape, element_bytes, side))
        return hidden;
    if (is_summed_over_images(shape, element_bytes, side))
        let_go(&hidden,
               take(&hidden, times(shape->in.batch, shape->in.channels * shape->out_channels),
                    FLOAT32_BYTES));
    else
        let_go(&hidden,
               take(&hidden, vw__add_capped_u64(copies(shape), parts(shape, element_bytes, side)),
                    element_bytes));
    return hidden;
}

/* ---- attention ------------------------------------------------------------------------------- */

/* Kernels that keep no probabilities compute them again in the derivative, and sum the query's
 * gradient in float32. */
vw__hidden vw__hidden_attention(const vw__hidden_heads *shape)
{
    enum { FLASH_ROWS = 128, EFFICIENT_ROWS = 32, WIDTH_STEP = 32 };
    vw__hidden hidden = {.count = 0};
    uint64_t rows = times(shape->batch, shape->heads);
    uint64_t length = up_to(shape->length, shape->is_flash ? FLASH_ROWS : EFFICIENT_ROWS);
    size_t product = VW__HIDDEN_MOST, sums = VW__HIDDEN_MOST;
    if (!shape->is_flash) { /* grad * result, summed, and the sums in another order */
        uint64_t elements = times(rows, shape->length);
        product = take(&hidden, times(elements, shape->width), FLOAT32_BYTES);
        sums = take(&hidden, elements, FLOAT32_BYTES);
    }
    take(&hidden, times(rows, length), FLOAT32_BYTES);
    let_go(&hidden, sums);
    let_go(&hidden, product);
    take(&hidden, times(times(rows, length), up_to(shape->width, WIDTH_STEP)), FLOAT32_BYTES);
    if (shape->is_flash && shape->key_heads < shape->heads) { /* of keys, and of values */
        uint64_t repeated = times(times(rows, shape->key_length), shape->width);
        take(&hidden, repeated, shape->element_bytes);
        take(&hidden, repeated, shape->element_bytes);
    }
    return hidden;
}

/* ---- recurrent layers ------------------------------------------------------------------------ */

/* cuDNN's workspaces for 288 layers on an H200 (bench/torch/measure_workspaces.py) are sums of: the
 * matrices; 8 MiB for each layer and direction; some copies of all states; and some of one step's.
 * Where it picks other kernels, which it does for batches below 32 and for single layers of 16
 * bits, this is up to a fifth of it off. */
static uint64_t copies_of_all(const vw__hidden_cells *cells)
{
    const bool is_lstm = cells->gates == 4, is_single = cells->layers == 1;
    if (!cells->is_training)
        return cells->directions * cells->gates;
    if (cells->directions > 1)
        return is_lstm ? 15 : !is_single ? 14 : cells->gates == 3 ? 13 : 12;
    if (is_lstm)
        return cells->has_dropout ? 7 : 6;
    return is_single || (cells->has_dropout && cells->gates == 3) ? 6 : 5;
}

static uint64_t copies_of_step(const vw__hidden_cells *cells)
{
    const bool is_lstm = cells->gates == 4;
    if (cells->directions > 1)
        return times(is_lstm ? 24 : 14, cells->layers);
    if (cells->layers == 1)
        return is_lstm ? 11 : 5;
    return is_lstm ? times(10, cells->layers) : vw__add_capped_u64(times(13, cells->layers), 8);
}

/* Of all layers: the first reads the input, the others the states of those below. */
static uint64_t matrices(const vw__hidden_cells *cells)
{
    const uint64_t gates = times(times(cells->directions, cells->gates), cells->width);
    const uint64_t first = times(gates, vw__add_capped_u64(cells->inputs, cells->width));
    const uint64_t states = times(cells->directions, cells->width);
    const uint64_t other = times(gates, vw__add_capped_u64(states, cells->width));
    return vw__add_capped_u64(first, times(cells->layers > 0 ? cells->layers - 1 : 0, other));
}

vw__hidden vw__hidden_recurrent(const vw__hidden_cells *cells)
{
    enum { LAYER_BYTES = 8 << 20 };
    vw__hidden hidden = {.count = 0};
    uint64_t elements = matrices(cells);
    elements =
        vw__add_capped_u64(elements, times(copies_of_all(cells), times(cells->rows, cells->width)));
    elements = vw__add_capped_u64(elements,
                                  times(copies_of_step(cells), times(cells->batch, cells->width)));
    uint64_t size_bytes =
        vw__add_capped_u64(times(elements, cells->element_bytes),
                           times(LAYER_BYTES, times(cells->layers, cells->directions)));
    let_go(&hidden, take(&hidden, size_bytes, 1));
    return hidden;
}
