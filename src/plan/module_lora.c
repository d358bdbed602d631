/* module_lora.c - adapters beside frozen weights, after PEFT. Weights in 4 bits: module_packed.c.
 *
 * A frozen weight's product does not save its argument; the adapter's does, and in the adapter's
 * own type, which is float32 whatever the model's is (PEFT's autocast_adapter_dtype). Several
 * adapted modules that read the same tensor each keep a copy of their own.
 *
 *   result = base(x) + lora_B(lora_A(x)) * scaling          (no dropout, PEFT's default)
 *
 * Before QLoRA trains, prepare_model_for_kbit_training() casts everything that is not quantized to
 * float32: norms, embeddings, the head, biases (plan_run.c). */
#include <string.h>

#include "base/error.h"
#include "plan/plan_run.h"

/* ---- targets --------------------------------------------------------------------------------- */

#define ALL_LINEAR "all-linear"

static bool has_name(const vw__module_names *names, const char *name, size_t length)
{
    for (size_t i = 0; i < names->count; i++)
        if (strlen(names->items[i]) == length && strncmp(names->items[i], name, length) == 0)
            return true;
    return false;
}

static void add_name(vw__module_names *names, const char *name)
{
    const size_t room = sizeof names->items / sizeof names->items[0];
    if (names->count < room && !has_name(names, name, strlen(name)))
        names->items[names->count++] = name;
}

/* The next name of a list with commas between, or NULL. */
static const char *next_target(const char **rest, size_t *length)
{
    const char *name = *rest + strspn(*rest, ", ");
    *length = strcspn(name, ", ");
    *rest = name + *length;
    return *length > 0 ? name : NULL;
}

static bool is_listed(const char *targets, const char *name)
{
    size_t length;
    for (const char *target; (target = next_target(&targets, &length)) != NULL;)
        if (strlen(name) == length && strncmp(target, name, length) == 0)
            return true;
    return false;
}

bool vw__module_is_lora_target(vw__plan_run *run, const char *name, vw__module_linear_kind kind)
{
    const char *targets = run->settings->lora_targets;
    if (kind != VW__MODULE_LINEAR_PLAIN && kind != VW__MODULE_LINEAR_ADAPTED)
        return false;
    add_name(&run->linears, name);
    const bool is_target = targets == NULL                    ? kind == VW__MODULE_LINEAR_ADAPTED
                           : strcmp(targets, ALL_LINEAR) == 0 ? true
                                                              : is_listed(targets, name);
    if (is_target)
        add_name(&run->adapted, name);
    return is_target;
}

/* "q_proj, k_proj" */
static void join(const vw__module_names *names, char *text, size_t size_bytes)
{
    text[0] = '\0';
    for (size_t i = 0; i < names->count; i++) {
        if (i > 0)
            strncat(text, ", ", size_bytes - strlen(text) - 1);
        strncat(text, names->items[i], size_bytes - strlen(text) - 1);
    }
}

void vw__module_check_lora_targets(vw__plan_run *run)
{
    char known[256];
    size_t length;
    const char *rest = run->settings->lora_targets;
    if (rest == NULL || strcmp(rest, ALL_LINEAR) == 0 || vw__tape_status(run->tape) != VW_OK)
        return;
    join(&run->linears, known, sizeof known);
    const char *target = next_target(&rest, &length);
    while (target != NULL && has_name(&run->linears, target, length))
        target = next_target(&rest, &length);
    if (target != NULL)
        vw__tape_fail(run->tape, vw__fail(VW_ERR_INVALID_ARGUMENT,
                                          "LoRA's targets: expected " ALL_LINEAR " or some of %s, "
                                          "found %.*s",
                                          known, (int)length, target));
    else if (run->adapted.count == 0)
        vw__tape_fail(run->tape,
                      vw__fail(VW_ERR_INVALID_ARGUMENT,
                               "LoRA's targets: expected " ALL_LINEAR " or some of %s", known));
}

/* ---- adapters -------------------------------------------------------------------------------- */

static vw__op_linear_weights make_part(vw__plan_run *run, uint64_t in, uint64_t out)
{
    bool is_trained = run->settings->mode != VW_PLAN_MODE_INFERENCE;
    uint64_t elements = vw__tape_times(run->tape, in, out);
    return (vw__op_linear_weights){.in = in,
                                   .out = out,
                                   .bias = vw__tensor_none(),
                                   .weight = vw__module_make_weight_of(
                                       run, elements, (vw__tape_matrix){.rows = out, .width = in},
                                       VW__DTYPE_FLOAT32, is_trained)};
}

void vw__module_make_adapter(vw__plan_run *run, vw__module_linear *module)
{
    uint64_t rank = run->settings->lora_rank;
    module->is_adapted = true;
    module->lora_a = make_part(run, module->weights.in, rank);
    module->lora_b = make_part(run, rank, module->weights.out);
}

static vw__tensor apply_base(vw__plan_run *run, vw__tensor x, const vw__module_linear *module)
{
    if (!module->is_quantized)
        return vw__op_linear(run->tape, x, &module->weights);
    vw__tensor result = vw__module_apply_packed(run, x, module);
    vw__tensor_rebind(run->tape, &result, vw__op_contiguous(run->tape, result)); /* clone() */
    return result;
}

vw__tensor vw__module_apply_adapted(vw__plan_run *run, vw__tensor x,
                                    const vw__module_linear *module)
{
    vw__tape *tape = run->tape;
    vw__dtype autocast_dtype;
    bool keeps_type = module->is_quantized && vw__plan_is_autocast(run->settings, &autocast_dtype);
    vw__tensor result = apply_base(run, x, module);
    vw__dtype dtype = result.dtype;
    vw__tensor argument =
        keeps_type ? vw__tensor_hold(tape, x) : vw__op_to(tape, x, VW__DTYPE_FLOAT32);
    vw__tensor low = vw__op_linear(tape, argument, &module->lora_a);
    vw__tensor high = vw__op_linear(tape, low, &module->lora_b);
    vw__tensor_drop(tape, &low);
    vw__tensor_rebind(tape, &high, vw__op_mul_scalar(tape, high));
    if (module->is_quantized && !keeps_type)
        vw__tensor_rebind(tape, &high, vw__op_to(tape, high, dtype));
    vw__tensor sum = vw__op_add(tape, result, high);
    vw__tensor_drop(tape, &high);
    vw__tensor_rebind(tape, &result, sum);
    if (!module->is_quantized)
        vw__tensor_rebind(tape, &result, vw__op_to(tape, result, dtype));
    vw__tensor_drop(tape, &argument);
    return result;
}
