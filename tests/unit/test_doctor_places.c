/* test_doctor_places.c - tracebacks as people paste them: which line failed, and in which phase.
 *
 * Each text was written after one that somebody reported; the project and the number of the issue
 * are beside it. Paths, names and numbers are our own, and most frames are left out. */
#include <stdio.h>
#include <string.h>

#include "vramwise/doctor.h"

#include "support/cmocka_here.h"

/* ---- messages -------------------------------------------------------------------------------- */

#define OOM                                                                                        \
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 392.00 MiB. GPU 0 has a total " \
    "capacity of 23.65 GiB of which 120.06 MiB is free. Including non-PyTorch memory, this "       \
    "process has 23.50 GiB memory in use. Of the allocated memory 22.71 GiB is allocated by "      \
    "PyTorch, and 320.50 MiB is reserved by PyTorch but unallocated.\n"
#define OLD_OOM                                                                                    \
    "RuntimeError: CUDA out of memory. Tried to allocate 240.00 MiB (GPU 0; 14.76 GiB total "      \
    "capacity; 13.54 GiB already allocated; 73.75 MiB free; 13.63 GiB reserved in total by "       \
    "PyTorch)\n"
#define HEAD "Traceback (most recent call last):\n"
#define SITE "/opt/conda/lib/python3.11/site-packages/"
#define FRAME(file, line, function, code)                                                          \
    "  File \"" file "\", line " line ", in " function "\n    " code "\n"
#define MODULE_CALL                                                                                \
    FRAME(SITE "torch/nn/modules/module.py", "1751", "_wrapped_call_impl",                         \
          "return self._call_impl(*args, **kwargs)")                                               \
    FRAME(SITE "torch/nn/modules/module.py", "1762", "_call_impl",                                 \
          "return forward_call(*args, **kwargs)")

typedef struct place_case {
    const char *source, *text;
    const char *file;
    int line; /* -1 = not said */
    const char *function, *code, *phase;
} place_case;

/* clang-format off */
static const place_case
    cases[] =
        {
            {"the three lines of one program",
             HEAD FRAME("train.py", "88", "main", "loss.backward()") OOM, "train.py", 88, "main",
             "loss.backward()", "backward"},
            {"the three lines of one program",
             HEAD FRAME("train.py", "89", "main", "optimizer.step()") OOM, "train.py", 89, "main",
             "optimizer.step()", "optimizer"},
            {"the three lines of one program",
             HEAD FRAME("train.py", "90", "main", "out = model.generate(**inputs)") OOM, "train.py",
             90, "main", "out = model.generate(**inputs)", "generate"},
            {"huggingface/trl 2776: ranks, AdamW without fused",
             "[rank0]: Traceback (most recent call last):\n"
             "[rank0]:   File \"/work/grpo.py\", line 183, in <module>\n[rank0]:     main()\n"
             "[rank0]:   File \"/work/grpo.py\", line 172, in main\n[rank0]:     trainer.train()\n"
             "[rank0]:   File \"" SITE "torch/optim/optimizer.py\", line 487, in wrapper\n"
             "[rank0]:     out = func(*args, **kwargs)\n"
             "[rank0]:   File \"" SITE "torch/optim/adamw.py\", line 606, in _multi_tensor_adamw\n"
             "[rank0]:     exp_avg_sq_sqrt = torch._foreach_sqrt(device_exp_avg_sqs)\n"
             "[rank0]: " OOM,
             "/work/grpo.py", 172, "main", "trainer.train()", "optimizer"},
            {"mlcommons/algorithmic-efficiency 425: the user's file is below an installed one",
             HEAD FRAME("submission_runner.py", "644", "<module>", "app.run(main)")
                 FRAME("/usr/local/lib/python3.8/dist-packages/absl/app.py", "308", "run",
                       "_run_main(main, args)")
                     FRAME("/work/baselines/submission.py", "115", "update_params",
                           "optimizer_state['optimizer'].step()")
                         FRAME("/usr/local/lib/python3.8/dist-packages/torch/optim/adamw.py", "184",
                               "step", "adamw(") OLD_OOM,
             "/work/baselines/submission.py", 115, "update_params",
             "optimizer_state['optimizer'].step()", "optimizer"},
            {"hpcaitech/ColossalAI 3509: the same twice, the second after other lines",
             OLD_OOM "wandb: Waiting for W&B process to finish... (failed 1).\n" HEAD FRAME(
                 "train_sft.py", "155", "train", "trainer.fit(logger=logger)")
                 FRAME("/home/u/.conda/lib/python3.8/site-packages/coati/trainer/sft.py", "110",
                       "fit", "self.strategy.optimizer_step(self.optimizer)")
                     FRAME("/home/u/.conda/lib/python3.8/site-packages/torch/optim/adam.py", "157",
                           "step", "adam(params_with_grad,") OLD_OOM,
             "train_sft.py", 155, "train", "trainer.fit(logger=logger)", "optimizer"},
            {"bmaltais/kohya_ss 1048: rich, Windows",
             "\xe2\x95\xad\xe2\x94\x80 Traceback (most recent call last) \xe2\x94\x80\xe2\x95\xae\n"
             "\xe2\x94\x82 C:\\kohya_ss\\train_network.py:773 in train              \xe2\x94\x82\n"
             "\xe2\x94\x82                                                          \xe2\x94\x82\n"
             "\xe2\x94\x82   772 \xe2\x94\x82   \xe2\x94\x82   if step:                      "
             "\xe2\x94\x82\n"
             "\xe2\x94\x82 \xe2\x9d\xb1 773 \xe2\x94\x82   \xe2\x94\x82   optimizer.step()         "
             "   "
             "\xe2\x94\x82\n"
             "\xe2\x94\x82 "
             "C:\\kohya_ss\\venv\\lib\\site-packages\\torch\\cuda\\amp\\grad_scaler.py:290 in "
             "_maybe_opt_step \xe2\x94\x82\n"
             "\xe2\x94\x82 \xe2\x9d\xb1 290 \xe2\x94\x82   retval = optimizer.step(*args, "
             "**kwargs) "
             "\xe2\x94\x82\n"
             "\xe2\x95\xb0\xe2\x94\x80\xe2\x94\x80\xe2\x95\xaf\n" OLD_OOM,
             "C:\\kohya_ss\\train_network.py", 773, "train", "optimizer.step()", "optimizer"},
            {"bmaltais/kohya_ss 990: rich, the model is moved",
             "\xe2\x95\xad\xe2\x94\x80 Traceback (most recent call last) \xe2\x94\x80\xe2\x95\xae\n"
             "\xe2\x94\x82 E:\\kohya_ss\\train_db.py:120 in main \xe2\x94\x82\n"
             "\xe2\x94\x82 \xe2\x9d\xb1 120 \xe2\x94\x82   unet = unet.to(accelerator.device) "
             "\xe2\x94\x82\n"
             "\xe2\x94\x82 "
             "E:\\kohya_ss\\venv\\lib\\site-packages\\torch\\nn\\modules\\module.py:641 in "
             "_apply \xe2\x94\x82\n"
             "\xe2\x94\x82 \xe2\x9d\xb1 641 \xe2\x94\x82   module._apply(fn) \xe2\x94\x82\n"
             "\xe2\x95\xb0\xe2\x95\xaf\n" OLD_OOM,
             "E:\\kohya_ss\\train_db.py", 120, "main", "unet = unet.to(accelerator.device)",
             "loading"},
            {"flairNLP/flair 3487: IPython 8",
             "OutOfMemoryError                          Traceback (most recent call last)\n"
             "Cell In[7], line 12\n"
             "     10 trainer = ModelTrainer(model, corpus)\n"
             "---> 12 trainer.train(\"out\")\n\n"
             "File " SITE
             "flair/trainers/trainer.py:624, in ModelTrainer.train_custom(self, base_path)\n"
             "    623 scale_before = scaler.get_scale()\n"
             "--> 624 scaler.step(self.optimizer)\n\n"
             "File " SITE "torch/cuda/amp/grad_scaler.py:370, in GradScaler.step(self, optimizer)\n"
             "--> 370 retval = self._maybe_opt_step(optimizer, optimizer_state)\n\n"
             "OutOfMemoryError: CUDA out of memory. Tried to allocate 240.00 MiB (GPU 0; 14.76 GiB "
             "total "
             "capacity; 13.54 GiB already allocated; 73.75 MiB free; 13.63 GiB reserved in total "
             "by "
             "PyTorch)\n",
             "Cell In[7]", 12, NULL, "trainer.train(\"out\")", "optimizer"},
            {"leeesangwon/PyTorch-Image-Retrieval 19: IPython 7, Lightning",
             "RuntimeError                              Traceback (most recent call last)\n"
             "<ipython-input-9-2ed7a> in <module>()\n"
             "      1 trainer = pl.Trainer(gpus=1)\n"
             "----> 2 trainer.fit(model, loader)\n\n"
             "/usr/local/lib/python3.7/dist-packages/pytorch_lightning/trainer/trainer.py in "
             "run_train(self)\n"
             "    635                 with self.profiler.profile(\"run_training_epoch\"):\n"
             "--> 637                     self.train_loop.run_training_epoch()\n\n"
             "/usr/local/lib/python3.7/dist-packages/torch/tensor.py in backward(self, gradient)\n"
             "--> 221         torch.autograd.backward(self, gradient, retain_graph, "
             "create_graph)\n\n" OLD_OOM,
             "<ipython-input-9-2ed7a>", 2, "<module>", "trainer.fit(model, loader)", "backward"},
            {"fairseq2 976: the optimizer's step inside a closure of others, no user's file",
             HEAD FRAME("/usr/local/bin/fairseq2", "8", "<module>", "sys.exit(main())")
                 FRAME(SITE "fairseq2/optim/loss_scaler.py", "170", "run_optimizer_step",
                       "loss = self._grad_scaler.step(self._optimizer, closure)")
                     FRAME(SITE "torch/amp/grad_scaler.py", "457", "step",
                           "retval = self._maybe_opt_step(optimizer, optimizer_state)") OOM,
             SITE "torch/amp/grad_scaler.py", 457, "step",
             "retval = self._maybe_opt_step(optimizer, optimizer_state)", "optimizer"},
            {"apchenstu/mvsnerf 58: no header, no indentation",
             "File \"/data/mvsnerf/models.py\", line 881, in build_volume\n"
             "volume_sq_sum = volume_sq_sum + warped_volume ** 2\n\n" OLD_OOM,
             "/data/mvsnerf/models.py", 881, "build_volume",
             "volume_sq_sum = volume_sq_sum + warped_volume ** 2", "other"},
            {"pytorch/pytorch 37250: typed at the prompt, no source",
             ">>> tensor = torch.zeros(shape).cuda(device=0)\n" HEAD
             "  File \"<stdin>\", line 1, in <module>\n" OLD_OOM,
             "<stdin>", 1, "<module>", NULL, "other"},
            {"Lightning-AI/litgpt 159: rich, generation",
             "\xe2\x95\xad Traceback (most recent call last) \xe2\x95\xae\n"
             "\xe2\x94\x82 /work/generate/base.py:190 in main \xe2\x94\x82\n"
             "\xe2\x94\x82 \xe2\x9d\xb1 190 \xe2\x94\x82   y = generate(model, encoded, max_new) "
             "\xe2\x94\x82\n"
             "\xe2\x94\x82 /work/generate/base.py:71 in generate \xe2\x94\x82\n"
             "\xe2\x94\x82 \xe2\x9d\xb1  71 \xe2\x94\x82   logits = model(x, max_seq_length) "
             "\xe2\x94\x82\n"
             "\xe2\x94\x82 " SITE
             "torch/nn/modules/module.py:1502 in _wrapped_call_impl \xe2\x94\x82\n"
             "\xe2\x94\x82 \xe2\x9d\xb1 1502 \xe2\x94\x82   return self._call_impl(*args, "
             "**kwargs) "
             "\xe2\x94\x82\n\xe2\x95\xb0\xe2\x95\xaf\n" OLD_OOM,
             "/work/generate/base.py", 71, "generate", "logits = model(x, max_seq_length)",
             "generate"},
            {"fspecii/HeartMuLa-Studio 12: a time before each line, marks of 3.11",
             "2026-01-24 16:04:27.409 | Traceback (most recent call last):\n"
             "2026-01-24 16:04:27.409 |   File \"/app/music_service.py\", line 487, in "
             "generate_with_callback\n"
             "2026-01-24 16:04:27.409 |     pipeline.mula.setup_caches(bs_size)\n"
             "2026-01-24 16:04:27.409 |   File \"" SITE
             "torchtune/modules/kv_cache.py\", line 38, in "
             "__init__\n"
             "2026-01-24 16:04:27.409 |     \"k_cache\", torch.zeros(cache_shape, dtype=dtype)\n"
             "2026-01-24 16:04:27.409 |                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
             "2026-01-24 16:04:27.409 | " OOM,
             "/app/music_service.py", 487, "generate_with_callback",
             "pipeline.mula.setup_caches(bs_size)", "other"},
            {"gensyn-ai/rl-swarm 314: vLLM's cache, all of it installed",
             HEAD
             "  File "
             "\"/root/rl-swarm/.venv/lib/python3.10/site-packages/vllm/entrypoints/llm.py\", "
             "line 242, in __init__\n    self.llm_engine = self.engine_class.from_engine_args(\n"
             "  File "
             "\"/root/rl-swarm/.venv/lib/python3.10/site-packages/vllm/worker/cache_engine.py\", "
             "line 103, in _allocate_kv_cache\n    layer_kv_cache = torch.zeros(alloc_shape,\n" OOM,
             "/root/rl-swarm/.venv/lib/python3.10/site-packages/vllm/worker/cache_engine.py", 103,
             "_allocate_kv_cache", "layer_kv_cache = torch.zeros(alloc_shape,", "generate"},
            {"vllm-project/vllm 17939: level, time and place before each line, per rank",
             "(VllmWorker rank=1 pid=2445) ERROR 05-10 16:00:15 [executor.py:470] Traceback (most "
             "recent "
             "call last):\n"
             "(VllmWorker rank=1 pid=2445) ERROR 05-10 16:00:15 [executor.py:470]   File \"" SITE
             "vllm/v1/worker/gpu_model_runner.py\", line 1544, in _dummy_sampler_run\n"
             "(VllmWorker rank=1 pid=2445) ERROR 05-10 16:00:15 [executor.py:470]     "
             "sampler_output = "
             "self.sampler(logits=logits,\n"
             "(VllmWorker rank=1 pid=2445) ERROR 05-10 16:00:15 [executor.py:470] " OOM,
             SITE "vllm/v1/worker/gpu_model_runner.py", 1544, "_dummy_sampler_run",
             "sampler_output = self.sampler(logits=logits,", "generate"},
            {"noonghunna/club-3090 60: weights are repacked; two tracebacks in a row",
             "(EngineCore pid=77) ERROR 05-05 07:35:19 [core.py:1136] Traceback (most recent call "
             "last):\n"
             "(EngineCore pid=77) ERROR 05-05 07:35:19 [core.py:1136]   File \"" SITE
             "vllm/model_executor/model_loader/utils.py\", line 99, in process_weights\n"
             "(EngineCore pid=77) ERROR 05-05 07:35:19 [core.py:1136]     module.process(module)\n"
             "(EngineCore pid=77) ERROR 05-05 07:35:19 [core.py:1136] " OOM
             "(EngineCore pid=77) Traceback (most recent call last):\n"
             "(EngineCore pid=77)   File \"/usr/lib/python3.12/multiprocessing/process.py\", line "
             "314, in "
             "_bootstrap\n(EngineCore pid=77)     self.run()\n",
             SITE "vllm/model_executor/model_loader/utils.py", 99, "process_weights",
             "module.process(module)", "loading"},
            {"jax-ml/jax 22755: JAX",
             HEAD FRAME(
                 "./src/main.py", "720", "<module>",
                 "= update(params_flow, params_van, keys)") "jaxlib.xla_extension.XlaRuntimeError: "
                                                            "RESOURCE_EXHAUSTED: Out of memory "
                                                            "while trying to allocate 3743729664 "
                                                            "bytes.\n",
             "./src/main.py", 720, "<module>", "= update(params_flow, params_van, keys)", "other"},
            {"sokrypton/ColabFold 65: JAX in a notebook",
             "RuntimeError                              Traceback (most recent call last)\n\n"
             "<ipython-input-5-aa> in predict(model)\n"
             "---> 14     result = runner.predict(features)\n\n"
             "/usr/local/lib/python3.7/dist-packages/jax/interpreters/xla.py in "
             "_execute_compiled(compiled, *args)\n"
             "    959           if x is not token))\n"
             "--> 960   out_bufs = compiled.execute(input_bufs)\n\n"
             "RuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 14285187448 "
             "bytes.\n",
             "<ipython-input-5-aa>", 14, "predict", "result = runner.predict(features)", "other"},
            {"cupy/cupy 2537: Chainer names the error above the traceback",
             "Exception in main training loop: Out of memory allocating 25,600,000 bytes "
             "(allocated so "
             "far: 3,635,267,072 bytes).\n" HEAD FRAME(SITE "chainer/training/trainer.py", "343",
                                                       "run", "update()")
                 FRAME("/work/models/unet.py", "61", "forward", "e2 = F.relu(self.c2(e1))")
                     FRAME("cupy/cuda/memory.pyx", "518", "cupy.cuda.memory.alloc", "pass"),
             "/work/models/unet.py", 61, "forward", "e2 = F.relu(self.c2(e1))", "forward"},
            {"oreilly-japan/deep-learning-from-scratch-2 16: CuPy, native frames without source",
             HEAD FRAME("../common/trainer.py", "110", "fit",
                        "loss = model.forward(batch_x, batch_t)")
                 FRAME("../common/time_layers.py", "273", "forward",
                       "out = np.dot(rx, W) + b") "  File \"cupy/core/core.pyx\", line 928, in "
                                                  "cupy.core.core.ndarray.__add__\n"
                                                  "  File \"cupy/cuda/memory.pyx\", line 518, in "
                                                  "cupy.cuda.memory.alloc\n"
                                                  "cupy.cuda.memory.OutOfMemoryError: out of "
                                                  "memory to allocate 250092544 bytes (total "
                                                  "10824923136 bytes)\n",
             "../common/time_layers.py", 273, "forward", "out = np.dot(rx, W) + b", "forward"},
            {"deepspeedai/DeepSpeed 237: state is made while it starts",
             HEAD FRAME("pretrain_gpt2.py", "171", "setup_model_and_optimizer",
                        "dist_init_required=False")
                 FRAME(SITE "deepspeed/pt/deepspeed_zero_optimizer.py", "333", "__init__",
                       "self.initialize_optimizer_states()")
                     FRAME(SITE "torch/optim/adam.py", "90", "step",
                           "state['exp_avg'] = zeros_like(p)") OLD_OOM,
             "pretrain_gpt2.py", 171, "setup_model_and_optimizer", "dist_init_required=False",
             "optimizer"},
            {"baichuan-inc/Baichuan2 113: two times and a driver's name, no indentation",
             "2023-09-14 21:27:58\t2023-09-14 21:27:58.000 [INFO] [Driver] Traceback (most recent "
             "call "
             "last):\n"
             "2023-09-14 21:27:58\t2023-09-14 21:27:58.000 [INFO] [Driver] File "
             "\"/work/finetune.py\", line "
             "71, in train\n"
             "2023-09-14 21:27:58\t2023-09-14 21:27:58.000 [INFO] [Driver] model, optimizer = "
             "deepspeed.initialize(args=args)\n"
             "2023-09-14 21:27:58\t2023-09-14 21:27:58.000 [INFO] [Driver] File \"" SITE
             "torch/optim/adam.py\", line 90, in step\n"
             "2023-09-14 21:27:58\t2023-09-14 21:27:58.000 [INFO] [Driver] state = {}\n"
             "2023-09-14 21:27:58\t2023-09-14 21:27:58.000 [INFO] [Driver] " OLD_OOM,
             "/work/finetune.py", 71, "train", "model, optimizer = deepspeed.initialize(args=args)",
             "optimizer"},
            {"ByteDance-Seed/Bagel 157: saving under FSDP, several ranks at once",
             "[rank7]: Traceback (most recent call last):\n"
             "[rank6]: Traceback (most recent call last):\n"
             "[rank7]:   File \"/work/train/fsdp_utils.py\", line 109, in fsdp_save_ckpt\n"
             "[rank6]:   File \"/work/other.py\", line 1, in elsewhere\n"
             "[rank7]:     ema_state_dict = ema_model.state_dict()\n"
             "[rank6]:     wait()\n"
             "[rank7]:                      ^^^^^^^^^^^^^^^^^^^^^^\n"
             "[rank7]:   File \"" SITE "torch/nn/modules/module.py\", line 2215, in state_dict\n"
             "[rank7]:     hook(self, prefix, keep_vars)\n"
             "[rank7]: " OOM,
             "/work/train/fsdp_utils.py", 109, "fsdp_save_ckpt", NULL, "saving"},
            {"facebookarchive/loop 57: evaluation",
             HEAD
                 FRAME("train.py", "200", "main", "eval_loss = evaluate(model, criterion)")
                     FRAME("train.py", "157", "evaluate", "output, _ = model(full_txt)")
                         MODULE_CALL OLD_OOM,
             "train.py", 157, "evaluate", "output, _ = model(full_txt)", "evaluation"},
            {"Lightning-AI/pytorch-lightning 8453: evaluation loop",
             HEAD
                 FRAME("fit.py", "12", "<module>", "trainer.fit(model)")
                     FRAME(SITE "pytorch_lightning/loops/evaluation_loop.py", "110",
                           "evaluation_step",
                           "output = self.trainer.accelerator.validation_step(step_kwargs)")
                         FRAME("net.py", "40", "validation_step", "logits = self(batch)")
                             MODULE_CALL OOM,
             "net.py", 40, "validation_step", "logits = self(batch)", "evaluation"},
            {"Comfy-Org/ComfyUI 6176: Windows, an interpreter that came with it",
             HEAD
                 FRAME("C:\\ComfyUI\\comfy\\model_management.py", "330", "load_models_gpu",
                       "loaded_model.model_load(lowvram)") "  [Previous line repeated 1 more "
                                                           "time]\n" FRAME("C:\\ComfyUI\\python_"
                                                                           "embeded\\Lib\\site-"
                                                                           "packages\\torch\\nn\\mo"
                                                                           "dules\\module.py",
                                                                           "927", "_apply",
                                                                           "param_applied = "
                                                                           "fn(param)") "          "
                                                                                        "          "
                                                                                        "^^^^^^^^^"
                                                                                        "\n" OOM,
             "C:\\ComfyUI\\comfy\\model_management.py", 330, "load_models_gpu",
             "loaded_model.model_load(lowvram)", "loading"},
            {"nkolot/SPIN 76: the model is moved; CUDA's short message",
             HEAD FRAME("demo.py", "119", "<module>",
                        "model = hmr(config.SMPL_MEAN_PARAMS).to(device)")
                 FRAME(
                     SITE "torch/nn/modules/module.py", "424", "convert",
                     "return t.to(device, dtype if t.is_floating_point() else None)") "RuntimeError"
                                                                                      ": CUDA "
                                                                                      "error: out "
                                                                                      "of memory\n",
             "demo.py", 119, "<module>", "model = hmr(config.SMPL_MEAN_PARAMS).to(device)",
             "loading"},
            {"yellow-binary-tree/HawkEye 6: home directory as a tilde",
             "OutOfMemoryError                          Traceback (most recent call last)\n"
             "Cell In[3], line 25\n     24 model = HawkEye_it(config=cfg.model)\n"
             "---> 25 model.set_device_ids([cfg.device])\n\n"
             "File ~/VLM/HawkEye/models/hawkeye_it.py:210, in HawkEye_it.set_device_ids(self, "
             "ids)\n"
             "    208 self.extra_query_tokens = nn.Parameter(self.extra_query_tokens)\n"
             "--> 210 self.llama_model.to(self.devices[0])\n\n"
             "File ~/envs/v/lib/python3.9/site-packages/torch/nn/modules/module.py:797, in "
             "Module._apply(self, fn)\n--> 797         module._apply(fn)\n\n" OOM,
             "~/VLM/HawkEye/models/hawkeye_it.py", 210, "HawkEye_it.set_device_ids",
             "self.llama_model.to(self.devices[0])", "loading"},
            {"chepraid/EasyR1 9: Ray, chained",
             HEAD FRAME(
                 SITE "ray/_private/worker.py", "937", "get_objects",
                 "raise value.as_instanceof_cause()") "ray.exceptions.RayTaskError("
                                                      "OutOfMemoryError)"
                                                      ": ray::Worker.update() (pid=1188, "
                                                      "ip=10.0.0.7)\n" FRAME(
                                                          "/work/verl/workers/actor.py", "285",
                                                          "update_policy", "loss.backward()")
                                                          FRAME(SITE "torch/autograd/graph.py",
                                                                "823", "_engine_run_backward",
                                                                "return "
                                                                "Variable._execution_engine.run_"
                                                                "backward(") OOM,
             "/work/verl/workers/actor.py", 285, "update_policy", "loss.backward()", "backward"},
            {"ultralytics/ultralytics 7030: a handled error first, then another",
             HEAD FRAME("a.py", "3", "first",
                        "table[key]") "KeyError: 'key'\n\n"
                                      "During handling of the above exception, another exception "
                                      "occurred:\n\n" HEAD FRAME("/work/val.py", "30", "run",
                                                                 "preds = model(batch[\"img\"])")
                                          MODULE_CALL OLD_OOM,
             "/work/val.py", 30, "run", "preds = model(batch[\"img\"])", "forward"},
            {"Megatron-LM 878: a worker of the loader, shared memory",
             HEAD FRAME("/work/pretrain.py", "52", "loop", "for batch in train_loader:")
                 FRAME("/usr/lib/python3.10/selectors.py", "416", "select",
                       "fd_event_list = self._selector.poll(timeout)")
                     FRAME(SITE "torch/utils/data/_utils/signal_handling.py", "66", "handler",
                           "_error_if_any_worker_fails()") "RuntimeError: DataLoader worker (pid "
                                                           "56811) is killed by signal: Bus error. "
                                                           "It is possible "
                                                           "that dataloader's workers are out of "
                                                           "shared memory. Please try to raise "
                                                           "your shared memory "
                                                           "limit.\n",
             "/work/pretrain.py", 52, "loop", "for batch in train_loader:", "data"},
            {"WZMIAOMIAO/deep-learning-for-image-processing 664: a batch is moved",
             HEAD FRAME("train.py", "60", "train_one_epoch", "images = images.to(device)") OLD_OOM,
             "train.py", 60, "train_one_epoch", "images = images.to(device)", "data"},
            {"Python 3.13 in colours",
             HEAD "  File \033[35m\"/work/train.py\"\033[0m, line \033[35m88\033[0m, in "
                  "\033[35mmain\033[0m\n    \033[31mloss.backward\033[0m\033[1;31m()\033[0m\n"
                  "    \033[31m~~~~~~~~~~~~~\033[0m\033[1;31m^^\033[0m\n" OOM,
             "/work/train.py", 88, "main", "loss.backward()", "backward"},
            {"a log in JSON, line ends written out",
             "{\"log\": \"Traceback (most recent call last):\\n  File \\\"/work/train.py\\\", line "
             "88, in "
             "main\\n    optimizer.step()\\n" /* */
             "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 392.00 MiB. GPU 0 has "
             "a total "
             "capacity of 23.65 GiB of which 120.06 MiB is free.\"}\n",
             "/work/train.py", 88, "main", "optimizer.step()", "optimizer"},
            {"a Windows interpreter below the user's file",
             HEAD FRAME("C:\\Users\\me\\run.py", "7", "<module>", "loss = net(x).sum()")
                 FRAME("C:\\Users\\me\\miniconda3\\envs\\t\\lib\\contextlib.py", "81", "inner",
                       "return func(*args, **kwds)") OLD_OOM,
             "C:\\Users\\me\\run.py", 7, "<module>", "loss = net(x).sum()", "forward"},
};
/* clang-format on */

static vw_diagnosis *diagnose(const char *text)
{
    vw_diagnosis *got = NULL;
    assert_int_equal(vw_doctor_text(text, strlen(text), NULL, &got), VW_OK);
    return got;
}

static void assert_text(const char *source, const char *got, const char *expected)
{
    if (expected == NULL)
        return;
    if (got == NULL || strcmp(got, expected) != 0)
        fail_msg("%s: got \"%s\", expected \"%s\"", source, got != NULL ? got : "nothing",
                 expected);
}

static void assert_place(const place_case *expected, const vw_diagnosis *got)
{
    const vw_failed_at *at = got->failed_at;
    if (at == NULL)
        fail_msg("%s: no place; verdict %s", expected->source, vw_verdict_name(got->verdict));
    assert_text(expected->source, at->file, expected->file);
    assert_text(expected->source, at->phase, expected->phase);
    assert_text(expected->source, at->code, expected->code);
    assert_text(expected->source, at->function, expected->function);
    assert_int_equal(at->line, expected->line);
    assert_true(got->finding_count != 0 && got->findings[0].where_count != 0);
    assert_non_null(strstr(got->findings[0].where[0], expected->file));
}

static void the_line_and_the_phase_are_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        vw_diagnosis *got = diagnose(cases[i].text);
        assert_place(&cases[i], got);
        vw_diagnosis_free(got);
    }
}

/* Behind more of a log than is held in memory at once. */
static void a_traceback_in_a_long_log_is_found_too(void **state)
{
    static char text[400 << 10];
    static const char line[] = "step 100 | loss 2.31 | lr 3e-4 | train.py:12: a note\n";
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t length = 0, wanted = (200u << 10) + i * 3331;
        while (length < wanted) {
            memcpy(text + length, line, sizeof line - 1);
            length += sizeof line - 1;
        }
        memcpy(text + length, cases[i].text, strlen(cases[i].text) + 1);
        vw_diagnosis *got = diagnose(text);
        assert_place(&cases[i], got);
        vw_diagnosis_free(got);
    }
}

static void a_stack_of_many_frames_keeps_its_ends(void **state)
{
    static char text[200 << 10];
    static const char frame[] = MODULE_CALL;
    size_t length = 0;
    (void)state;
    static const char first[] = HEAD FRAME("/work/train.py", "9", "step", "out = model(x)");
    memcpy(text, first, sizeof first - 1);
    length = sizeof first - 1;
    for (int i = 0; i < 400; i++, length += sizeof frame - 1)
        memcpy(text + length, frame, sizeof frame - 1);
    memcpy(text + length, OOM, sizeof OOM);
    vw_diagnosis *got = diagnose(text);
    assert_string_equal(got->failed_at->file, "/work/train.py");
    assert_string_equal(got->failed_at->phase, "forward");
    assert_int_equal(got->findings[0].where_count, 2);
    assert_non_null(strstr(got->findings[0].where[1], "module.py:1762 _call_impl"));
    vw_diagnosis_free(got);
}

static void a_message_without_a_traceback_has_no_place(void **state)
{
    static const char *const texts[] = {
        OOM,
        "/x/site-packages/torch/foo.py:12: UserWarning: slow\n" OOM,
        "look for train.py in the folder\n" OOM,
        "Traceback (most recent call last):\n" OOM,
        "Cell In[3], line five\n" OOM,
        "File \"train.py\", line , in main\n" OOM,
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        vw_diagnosis *got = diagnose(texts[i]);
        assert_int_equal(got->verdict, VW_VERDICT_GENUINE);
        assert_null(got->failed_at);
        assert_int_equal(got->findings[0].where_count, 0);
        vw_diagnosis_free(got);
    }
}

/* ---- what the phase changes ------------------------------------------------------------------ */

static const char *first_action(const vw_diagnosis *got)
{
    return got->findings[0].remedies[0].action;
}

static bool offers(const vw_diagnosis *got, const char *words)
{
    for (size_t i = 0; i < got->findings[0].remedy_count; i++)
        if (strstr(got->findings[0].remedies[i].how, words) != NULL)
            return true;
    return false;
}

static void remedies_come_in_the_order_of_the_phase(void **state)
{
    static const struct {
        const char *code, *first, *offered, *left_out;
    } expected[] = {
        {"loss.backward()", "checkpointing", "use_reentrant=False", "max_new_tokens"},
        {"optimizer.step()", "fused step", "AdamW8bit", "use_reentrant"},
        {"out = model.generate(x)", "shorter prompts", "load_in_4bit", "AdamW8bit"},
        {"model = AutoModel.from_pretrained(name)", "fewer bits", "device_map", "batch_size //"},
        {"torch.save(state, path)", "from the host", "value.cpu()", "AdamW8bit"},
        {"images = images.to(device)", "split each batch", "zero_grad", "max_new_tokens"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        char text[2048];
        (void)snprintf(text, sizeof text, HEAD "  File \"train.py\", line 88, in main\n    %s\n%s",
                       expected[i].code, OOM);
        vw_diagnosis *got = diagnose(text);
        assert_non_null(strstr(first_action(got), expected[i].first));
        assert_true(offers(got, expected[i].offered));
        assert_false(offers(got, expected[i].left_out));
        vw_diagnosis_free(got);
    }
}

static void evaluation_says_to_keep_no_graph(void **state)
{
    (void)state;
    vw_diagnosis *got =
        diagnose(HEAD FRAME("train.py", "157", "evaluate", "output = model(x)") MODULE_CALL OOM);
    assert_non_null(strstr(first_action(got), "inference_mode"));
    assert_true(offers(got, ".detach().cpu()"));
    vw_diagnosis_free(got);
}

/* ---- what the request changes ---------------------------------------------------------------- */

/* RenYurui/StructureFlow 35 */
#define LARGE                                                                                      \
    "RuntimeError: CUDA out of memory. Tried to allocate 8.13 GiB (GPU 0; 10.76 GiB total "        \
    "capacity; 643.57 MiB already allocated; 8.20 GiB free; 32.43 MiB cached)\n"

static void one_request_of_half_the_card_asks_for_its_shape_first(void **state)
{
    (void)state;
    vw_diagnosis *got = diagnose(LARGE);
    assert_int_equal(got->verdict, VW_VERDICT_GENUINE);
    assert_non_null(strstr(first_action(got), "look at the shapes"));
    bool is_halved = false;
    for (size_t i = 0; i < got->findings[0].remedy_count; i++) {
        const vw_remedy *remedy = &got->findings[0].remedies[i];
        if (strstr(remedy->action, "split each batch in 2") != NULL)
            is_halved = remedy->saves_bytes >= UINT64_C(4364512379) && /* 8.13 GiB / 2 */
                        remedy->saves_at_most_bytes < UINT64_C(5) << 30;
    }
    assert_true(is_halved);
    vw_diagnosis_free(got);
    got = diagnose(OOM); /* 392 MiB of 23.65 GiB */
    assert_null(strstr(first_action(got), "shapes"));
    vw_diagnosis_free(got);
}

static void a_request_for_weights_does_not_shrink_with_the_batch(void **state)
{
    (void)state;
    vw_diagnosis *got = diagnose(HEAD FRAME("load.py", "3", "<module>", "model.to(device)") LARGE);
    assert_string_equal(got->failed_at->phase, "loading");
    assert_false(offers(got, "batch_size"));
    assert_false(offers(got, "x.chunk"));
    vw_diagnosis_free(got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_line_and_the_phase_are_found),
        cmocka_unit_test(a_traceback_in_a_long_log_is_found_too),
        cmocka_unit_test(a_stack_of_many_frames_keeps_its_ends),
        cmocka_unit_test(a_message_without_a_traceback_has_no_place),
        cmocka_unit_test(remedies_come_in_the_order_of_the_phase),
        cmocka_unit_test(evaluation_says_to_keep_no_graph),
        cmocka_unit_test(one_request_of_half_the_card_asks_for_its_shape_first),
        cmocka_unit_test(a_request_for_weights_does_not_shrink_with_the_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
