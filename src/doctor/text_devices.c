/* text_devices.c - whose memory a message is about, and what its tools are called.
 *
 * Most messages are about NVIDIA's cards, but not all: advice for the wrong maker's tools is worse
 * than none. The kind of the message tells, and for kinds that several devices share, a word in it.
 */
#include "doctor/text_parts.h"
#include "settings/setting_variable.h"

#include <ctype.h>
#include <string.h>

static const vw__text_device nvidia = {
    .name = "GPU",
    .module = "cuda",
    .list = "nvidia-smi --query-compute-apps=pid,used_memory,name --format=csv",
    .visible = "CUDA_VISIBLE_DEVICES",
    .look = "print(torch.cuda.memory_summary())",
    .has_recordings = true,
};

static const struct {
    vw__error_text_kind kind;
    const char *word; /* in the message, by itself; NULL: none needed */
    vw__text_device device;
} others[] = {
    {VW__ERROR_TEXT_TORCH_HIP,
     NULL,
     {"GPU", "cuda", "rocm-smi --showpids --showmeminfo vram", "HIP_VISIBLE_DEVICES",
      "PYTORCH_HIP_ALLOC_CONF", "print(torch.cuda.memory_summary())", true}},
    {VW__ERROR_TEXT_TORCH_XPU,
     NULL,
     {"GPU", "xpu", "xpu-smi ps", "ZE_AFFINITY_MASK", "PYTORCH_ALLOC_CONF",
      "print(torch.xpu.memory_stats())", false}},
    {VW__ERROR_TEXT_TORCH_MPS,
     NULL,
     {"GPU", "mps", "top -o mem", "", "PYTORCH_ALLOC_CONF",
      "print(torch.mps.driver_allocated_memory())", false}},
    {VW__ERROR_TEXT_TORCH_OTHER,
     "MUSA",
     {"GPU", "musa", "mthreads-gmi", "MUSA_VISIBLE_DEVICES", "PYTORCH_MUSA_ALLOC_CONF",
      "print(torch.musa.memory_summary())", false}},
    {VW__ERROR_TEXT_TORCH_OTHER,
     "HPU",
     {"HPU", "hpu", "hl-smi", "HABANA_VISIBLE_DEVICES", "PYTORCH_ALLOC_CONF",
      "print(torch.hpu.memory_summary())", false}},
    {VW__ERROR_TEXT_TORCH_OTHER,
     "MLU",
     {"MLU", "mlu", "cnmon", "MLU_VISIBLE_DEVICES", "PYTORCH_MLU_ALLOC_CONF",
      "print(torch.mlu.memory_summary())", false}},
    {VW__ERROR_TEXT_TORCH_OTHER,
     "NPU",
     {"NPU", "npu", "npu-smi info", "ASCEND_RT_VISIBLE_DEVICES", "PYTORCH_NPU_ALLOC_CONF",
      "print(torch.npu.memory_summary())", false}},
    {VW__ERROR_TEXT_OTHER_GPU,
     "EL0004", /* Ascend's runtime */
     {"NPU", "npu", "npu-smi info", "ASCEND_RT_VISIBLE_DEVICES", "PYTORCH_NPU_ALLOC_CONF",
      "print(torch.npu.memory_summary())", false}},
    {VW__ERROR_TEXT_TORCH_OTHER,
     "EL0004",
     {"NPU", "npu", "npu-smi info", "ASCEND_RT_VISIBLE_DEVICES", "PYTORCH_NPU_ALLOC_CONF",
      "print(torch.npu.memory_summary())", false}},
    {VW__ERROR_TEXT_TORCH_OTHER,
     NULL,
     {"accelerator", "accelerator", "python -m torch.utils.collect_env", "", "PYTORCH_ALLOC_CONF",
      "print(torch.accelerator.memory_stats())", false}},
    {VW__ERROR_TEXT_JAX, "TPU", {"TPU", "", "tpu-info", "", "", "", false}},
    {VW__ERROR_TEXT_JAX, "hbm", {"TPU", "", "tpu-info", "", "", "", false}},
    {VW__ERROR_TEXT_JAX, "HBM", {"TPU", "", "tpu-info", "", "", "", false}},
};

/* "NPU", but not the one in "INPUT". */
static bool has_word(const char *text, const char *word)
{
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word))
        if (at == text || !isalpha((unsigned char)at[-1]))
            return true;
    return false;
}

const vw__text_device *vw__text_device_of(const vw__text_case *given)
{
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].kind == given->report->kind &&
            (others[i].word == NULL || has_word(given->report->excerpt, others[i].word)))
            return &others[i].device;
    return &nvidia;
}

const char *vw__text_variable(const vw__text_case *given, const char *version)
{
    const vw__error_text_report *report = given->report;
    const char *of_device = vw__text_device_of(given)->settings;
    unsigned known = version != NULL ? vw__setting_version(version) : report->least_torch;
    return vw__setting_variable(report->variable != NULL ? report->variable : of_device, known,
                                report->says_expandable);
}

/* ---- learning more --------------------------------------------------------------------------- */

static void add_look(const vw__text_case *given, vw__diagnosis_finding *finding)
{
    vw__diagnosis_advice(finding, "see what PyTorch holds at that moment",
                         "one line, in the process, where it fails",
                         vw__text_device_of(given)->look);
}

void vw__text_add_recording(const vw__text_case *given, vw__diagnosis_finding *finding)
{
    if (!vw__text_device_of(given)->has_recordings) {
        add_look(given, finding);
        return;
    }
    vw__diagnosis_advice(finding, "record the run, to see what holds the memory, line by line",
                         "no code is changed; the recorded run is a little slower",
                         "vramwise run -- python train.py");
}

void vw__text_add_process_list(const vw__text_case *given, vw__diagnosis_finding *finding)
{
    vw__diagnosis_advice(finding, "see who holds the card while it happens", "none",
                         vw__text_device_of(given)->list);
}
