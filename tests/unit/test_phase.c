/* test_phase.c - what functions, files and lines of code say about the phase. */
#include "analysis/phase.h"

#include <stdio.h>
#include <string.h>

#include "support/cmocka_here.h"

static vw__traceback_opinion judge(const char *file, const char *function, const char *code)
{
    vw__traceback_frame frame = {.line = 1};
    (void)snprintf(frame.file, sizeof frame.file, "%s", file);
    (void)snprintf(frame.function, sizeof frame.function, "%s", function);
    (void)snprintf(frame.code, sizeof frame.code, "%s", code);
    return vw__phase_judge(&frame);
}

static void assert_phase(const char *file, const char *function, const char *code, vw__phase phase)
{
    vw__traceback_opinion got = judge(file, function, code);
    if (got.mark != (uint8_t)phase)
        fail_msg("%s %s %s: %s, expected %s", file, function, code,
                 vw__phase_name((vw__phase)got.mark), vw__phase_name(phase));
}

static void lines_of_code_say_the_phase(void **state)
{
    static const struct {
        const char *code;
        vw__phase phase;
    } rows[] = {
        {"loss.backward()", VW__PHASE_BACKWARD},
        {"scaler.scale(loss).backward()", VW__PHASE_BACKWARD},
        {"self.manual_backward(loss)", VW__PHASE_OTHER},
        {"optimizer.step()", VW__PHASE_OPTIMIZER},
        {"self.optim.step(closure)", VW__PHASE_OPTIMIZER},
        {"scheduler.step()", VW__PHASE_OTHER},
        {"out = model.generate(**inputs)", VW__PHASE_GENERATE},
        {"model = AutoModel.from_pretrained(name)", VW__PHASE_LOADING},
        {"model.to(device)", VW__PHASE_LOADING},
        {"self.encoder.cuda()", VW__PHASE_LOADING},
        {"net = Net(3).to(\"cuda\")", VW__PHASE_LOADING},
        {"model = model.to(torch.bfloat16)", VW__PHASE_OTHER},
        {"images = images.to(device)", VW__PHASE_DATA},
        {"labels = batch[1].cuda(non_blocking=True)", VW__PHASE_DATA},
        {"for i, batch in enumerate(loader):", VW__PHASE_DATA},
        {"for x, y in train_loader:", VW__PHASE_DATA},
        {"rows = [a for i, a in enumerate(rows)]", VW__PHASE_OTHER},
        {"torch.save(model.state_dict(), path)", VW__PHASE_SAVING},
        {"out = model(x)", VW__PHASE_FORWARD},
        {"logits = self(x)", VW__PHASE_FORWARD},
        {"main()", VW__PHASE_OTHER},
        {"", VW__PHASE_OTHER},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_phase("train.py", "main", rows[i].code, rows[i].phase);
}

static void functions_and_files_say_it_without_code(void **state)
{
    static const struct {
        const char *file, *function;
        vw__phase phase;
    } rows[] = {
        {"/x/site-packages/torch/optim/adamw.py", "step", VW__PHASE_OPTIMIZER},
        {"/x/site-packages/torch/autograd/graph.py", "_engine_run_backward", VW__PHASE_BACKWARD},
        {"/x/site-packages/transformers/generation/utils.py", "_sample", VW__PHASE_GENERATE},
        {"C:\\p\\site-packages\\diffusers\\pipelines\\flux.py", "__call__", VW__PHASE_DIFFUSION},
        {"/x/site-packages/torch/nn/modules/module.py", "_call_impl", VW__PHASE_FORWARD},
        {"/x/site-packages/torch/nn/modules/module.py", "_apply", VW__PHASE_LOADING},
        {"/x/site-packages/torch/nn/modules/module.py", "state_dict", VW__PHASE_SAVING},
        {"/x/site-packages/torch/nn/utils/clip_grad.py", "clip_grad_norm_", VW__PHASE_OPTIMIZER},
        {"/x/site-packages/torch/utils/data/dataloader.py", "__next__", VW__PHASE_DATA},
        {"train.py", "Trainer.evaluate", VW__PHASE_EVALUATION},
        {"train.py", "validation_step", VW__PHASE_EVALUATION},
        {"train.py", "run_val", VW__PHASE_EVALUATION},
        {"train.py", "test_step", VW__PHASE_EVALUATION},
        {"app.py", "predict_step", VW__PHASE_EVALUATION},
        {"test_model.py", "test_backward", VW__PHASE_OTHER},
        {"train.py", "interval", VW__PHASE_OTHER},
        {"train.py", "", VW__PHASE_OTHER},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_phase(rows[i].file, rows[i].function, "", rows[i].phase);
}

#define BIT(phase) (UINT32_C(1) << VW__PHASE_##phase)

static void a_stack_has_one_phase(void **state)
{
    (void)state;
    /* recomputed in the backward pass; a step inside it */
    assert_int_equal(vw__phase_of(VW__PHASE_FORWARD, BIT(FORWARD) | BIT(BACKWARD)),
                     VW__PHASE_BACKWARD);
    assert_int_equal(vw__phase_of(VW__PHASE_OPTIMIZER, BIT(OPTIMIZER) | BIT(BACKWARD)),
                     VW__PHASE_OPTIMIZER);
    /* a forward pass inside of a step: a closure */
    assert_int_equal(vw__phase_of(VW__PHASE_FORWARD, BIT(FORWARD) | BIT(OPTIMIZER)),
                     VW__PHASE_FORWARD);
    assert_int_equal(vw__phase_of(VW__PHASE_FORWARD, BIT(FORWARD) | BIT(EVALUATION)),
                     VW__PHASE_EVALUATION);
    assert_int_equal(vw__phase_of(VW__PHASE_FORWARD, BIT(GENERATE) | BIT(EVALUATION)),
                     VW__PHASE_GENERATE);
    /* a text encoder's or a denoiser's part of an image */
    assert_int_equal(vw__phase_of(VW__PHASE_FORWARD, BIT(FORWARD) | BIT(DIFFUSION)),
                     VW__PHASE_DIFFUSION);
    assert_int_equal(vw__phase_of(VW__PHASE_GENERATE, BIT(GENERATE) | BIT(DIFFUSION)),
                     VW__PHASE_DIFFUSION);
    assert_int_equal(vw__phase_of(VW__PHASE_LOADING, BIT(LOADING) | BIT(DIFFUSION)),
                     VW__PHASE_LOADING);
    assert_int_equal(vw__phase_of(VW__PHASE_SAVING, BIT(SAVING) | BIT(EVALUATION)),
                     VW__PHASE_SAVING);
    assert_int_equal(vw__phase_of(0, 0), VW__PHASE_OTHER);
    assert_int_equal(vw__phase_of(200, 0), VW__PHASE_OTHER);
}

static void whose_a_file_is(void **state)
{
    static const struct {
        const char *file;
        bool is_users;
    } rows[] = {
        {"train.py", true},
        {"/home/me/lib/train.py", true},
        {"C:\\Users\\me\\lib\\train.py", true},
        {"<stdin>", true},
        {"<ipython-input-3-a>", true},
        {"Cell In[3]", true},
        {"/usr/lib/python3.12/threading.py", false},
        {"C:\\Python310\\lib\\threading.py", false},
        {"C:\\Users\\me\\miniconda3\\Lib\\runpy.py", false},
        {"D:\\envs\\torch\\lib\\contextlib.py", false},
        {"C:\\p\\Scripts\\accelerate.exe\\__main__.py", false},
        {"/usr/local/bin/vllm", false},
        {"/home/me/bin/train.py", true},
        {"cupy/cuda/memory.pyx", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (judge(rows[i].file, "f", "").is_users != rows[i].is_users)
            fail_msg("%s", rows[i].file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_code_say_the_phase),
        cmocka_unit_test(functions_and_files_say_it_without_code),
        cmocka_unit_test(a_stack_has_one_phase),
        cmocka_unit_test(whose_a_file_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
