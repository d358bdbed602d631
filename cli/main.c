/* main.c - the table of commands, and the way to them.
 *
 * `vramwise COMMAND ...` runs the command of that name; `help` and the two options that need no
 * command are dealt with here, and so is --help after any command, so that it works the same for
 * all of them. What a command is, and what its result means, is in command.h. */
#include <locale.h>
#include <malloc.h> /* mallopt */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h> /* madvise */
#include <unistd.h>   /* sysconf */

#include "vramwise/version.h" /* vw_version_string */

#include "arguments.h" /* arguments_refuse, arguments_nearest */
#include "command.h"
#include "common_options.h"
#include "file_guard.h"
#include "help.h"
#include "memory_guard.h"
#include "safe_print.h"
#include "terminal.h" /* terminal_finish, terminal_hold_streams */

static int command_help(int argc, char **argv);

static const command commands[] = {
    {
        .name = "check",
        .summary = "has memory grown since a baseline? a guard for CI",
        .have = COMMAND_HAVE_RECORDING,
        .usage =
            "usage: vramwise check FILE --baseline FILE.json [--max-growth GROWTH] [--json]\n"
            "                      [--top N]\n"
            "       vramwise check FILE --write-baseline FILE.json\n"
            "\n"
            "Compares a recording with the baseline of an earlier one: the peak of live\n"
            "bytes, reserved bytes, the number of allocations, leaked bytes and the smallest\n"
            "card. Exits with 1 if one of them is worse, and shows which functions of the\n"
            "program grew. Reserved bytes are replayed under the setting that the baseline\n"
            "names, so no figure depends on the machine.\n"
            "\n"
            "  --baseline FILE         compare with this one\n"
            "  --max-growth GROWTH     allowed growth: 2% of every figure, or by figure, such\n"
            "                          as peak=0,allocations=1%; others keep their default,\n"
            "                          peak=0,reserved=2%,allocations=2%,leak=0,card=2%\n"
            "  --write-baseline FILE   measure, write a baseline and compare nothing\n"
            "  --json                  the comparison, as one JSON object\n"
            "  --top N                 the N functions that grew most; default 10, 0 for all\n",
        .examples = "  vramwise check main.pickle --write-baseline memory.json\n"
                    "  vramwise check run.pickle --baseline memory.json --max-growth 2%\n",
        .run = command_check,
        .has_table = true,
        .reads_files = true,
    },
    {
        .name = "demo",
        .summary = "watch the allocator at work; needs no GPU",
        .have = COMMAND_HAVE_NOTHING,
        .usage =
            "usage: vramwise demo [--summary | --json]\n"
            "       vramwise demo techniques [--json]\n"
            "\n"
            "Runs the memory of a training job on a simulated card, under the rules of\n"
            "PyTorch's allocator: once as it is by default, until it fails, and once with\n"
            "expandable segments. Shows the error, where the memory was, and the two runs\n"
            "side by side. No GPU, no Python and no file is needed, and nothing is written.\n"
            "\n"
            "'techniques' goes through ways to train with less memory, one after the other on\n"
            "GPT-2: what each does to the memory of a step, and what to write for it.\n"
            "\n"
            "  --summary   also torch.cuda.memory_summary() at the failure\n"
            "  --json      the numbers, as one JSON object\n",
        .examples = "  vramwise demo\n"
                    "  vramwise demo techniques\n",
        .run = command_demo,
    },
    {
        .name = "diff",
        .summary = "what grew and what shrank between two recordings",
        .have = COMMAND_HAVE_RECORDING,
        .usage =
            "usage: vramwise diff FILE FILE [--json] [--stacks] [--top N]\n"
            "\n"
            "Compares two PyTorch memory snapshots at their peaks: what was live, by the line\n"
            "of the program that asked for it. Lines may have moved, and files and functions\n"
            "may have other names. Exits with 1 if anything grew or shrank.\n"
            "\n"
            "  --json      the numbers, as one JSON object\n"
            "  --stacks    also the innermost frames of each\n"
            "  --top N     the N largest changes; default 10, 0 for all\n",
        .examples = "  vramwise diff before.pickle after.pickle\n"
                    "  vramwise diff before.pickle after.pickle --top 0 --csv > changes.csv\n",
        .run = command_diff,
        .has_table = true,
        .reads_files = true,
    },
    {
        .name = "doctor",
        .summary = "which kind of out-of-memory it is, and what gives the bytes back",
        .have = COMMAND_HAVE_ERROR,
        .usage =
            "usage: vramwise doctor [FILE|-|--pid PID [--attach]] [--all] [--card CARD]\n"
            "                       [--torch VERSION] [--json]\n"
            "\n"
            "Reads an error message, a log with one in it, a log of steps with their memory,\n"
            "or a PyTorch memory snapshot, detects which it is, and says why memory ran out\n"
            "and what to do, with the bytes that each remedy gives back. FILE is standard\n"
            "input if it is '-' or missing: pipe a log into it; or, with '-', paste the error\n"
            "and end with Ctrl-D. With --pid it examines a process that runs, and only reads\n"
            "what it publishes, or what the system shows of it. The answer fits one screen;\n"
            "--all shows the whole.\n"
            "\n"
            "Exits with 1 if there is a finding.\n"
            "\n"
            "  --all             the whole report: why, the evidence, every remedy's code\n"
            "  --attach          with --pid: enter the process, a Python of 3.14 or newer,\n"
            "                    for a snapshot of its GPU memory, and examine that\n"
            "  --card CARD       judge as if it were that card, without a limit: 24GiB, or\n"
            "                    rtx4090, ... as in 'vramwise plan --list'\n"
            "  --pid PID         examine a running process, best one under 'vramwise run',\n"
            "                    instead of a file\n"
            "  --torch VERSION   use the rules of that version, such as 2.4\n"
            "  --json            the diagnosis, as one JSON object\n",
        .examples = "  vramwise doctor train.log\n"
                    "  python train.py 2>&1 | vramwise doctor\n"
                    "  vramwise doctor run.pickle --card rtx4090 --all\n"
                    "  vramwise doctor --pid 4711\n",
        .run = command_doctor,
        .has_table = true,
        .reads_files = true,
    },
    {
        .name = "exporter",
        .summary = "serve the memory of running jobs to Prometheus",
        .have = COMMAND_HAVE_JOBS,
        .usage =
            "usage: vramwise exporter [--listen ADDR] [--token-file FILE]\n"
            "                         [--all-users [--pod-logs DIR]]\n"
            "\n"
            "Serves the GPU memory of this user's jobs on this machine as metrics for\n"
            "Prometheus, at /metrics, until Ctrl-C or SIGTERM. Prints the address. Only this\n"
            "machine can connect, unless ADDR is an address that others can reach.\n"
            "\n"
            "  --listen ADDR      a port, or an address and a port, such as 0.0.0.0:17470; 0\n"
            "                     is a free port. Default: port 17470 of 127.0.0.1 and ::1\n"
            "  --token-file FILE  clients must send the token that is in FILE\n"
            "  --all-users        the jobs of all users that publish in /run/vramwise, as far\n"
            "                     as this user may read them\n"
            "  --pod-logs DIR     names of pods are found there. Default: /var/log/pods\n",
        .examples = "  vramwise exporter\n"
                    "  vramwise exporter --listen 0.0.0.0:17470\n"
                    "  vramwise exporter --all-users --token-file /etc/vramwise/token\n",
        .run = command_exporter,
    },
    {
        .name = "help",
        .summary = "how to use a command",
        .have = COMMAND_HAVE_NOTHING,
        .usage = "usage: vramwise help [COMMAND]\n"
                 "\n"
                 "Shows how to use COMMAND; without COMMAND, lists the commands.\n",
        .examples = "  vramwise help doctor\n",
        .run = command_help,
    },
    {
        .name = "mcp",
        .summary = "the commands that only read, for an assistant",
        .have = COMMAND_HAVE_ASSISTANT,
        .usage =
            "usage: vramwise mcp DIR...\n"
            "\n"
            "Serves doctor, stats, replay, tune and plan as tools to an assistant that speaks\n"
            "the Model Context Protocol: it starts this command, and sends a message per line\n"
            "on standard input. Files are read in the folders DIR and below them, wherever a\n"
            "link leads, and nothing is written. An answer has 32 KiB at most. A tool that\n"
            "takes longer than 120 s, or VRAMWISE_MCP_TIMEOUT seconds, is stopped.\n",
        .examples = "  vramwise mcp ~/runs\n"
                    "  VRAMWISE_MCP_TIMEOUT=600 vramwise mcp ~/runs /scratch/logs\n",
        .run = command_mcp,
    },
    {
        .name = "park",
        .summary = "a running job gives its GPU memory to others for a while",
        .have = COMMAND_HAVE_JOBS,
        .usage =
            "usage: vramwise park PID [REGION] [--timeout SECONDS] [--json]\n"
            "\n"
            "Has a running job copy its GPU memory to host memory and give it back to the\n"
            "driver, so that other processes can take it. The job waits when it next uses the\n"
            "GPU, until 'vramwise wake'. Nothing is lost, and captured graphs stay valid.\n"
            "With REGION only the memory of that region goes, and the job goes on. The job\n"
            "must be this user's, and run with allocator vramwise.\n"
            "\n"
            "  --timeout SECONDS   how long to wait for the job's answer; default 60\n"
            "  --json              what was moved, as one JSON object\n",
        .examples = "  vramwise park 4711 && ./other_job; vramwise wake 4711\n",
        .run = command_park,
    },
    {
        .name = "plan",
        .summary = "what a training run will take, and what makes it fit",
        .have = COMMAND_HAVE_MODEL,
        .usage =
            "usage: vramwise plan --model MODEL [OPTION...]\n"
            "       vramwise plan --from FILE --batch-now N [--batch N] [OPTION...]\n"
            "       vramwise plan --trace SCRIPT [OPTION...] [-- ARGUMENT...]\n"
            "       vramwise plan --list [--json]\n"
            "\n"
            "Runs one step of a model with sizes in place of numbers. Shows the peak, its\n"
            "parts and its place, and what makes it fit on a card. MODEL is a config.json, a\n"
            "folder that holds one, '-', a name of --list or of huggingface.co. Exits with 1\n"
            "if it does not fit on the card, or only barely.\n"
            "\n"
            "  --batch N            samples of a micro-batch on one GPU; default 1\n"
            "  --seq N, --image N   tokens, or pixels of a side; default: the model's own\n"
            "  --card SIZE|NAME     24GiB, or rtx4090, a100-80g, h200, ... as in --list\n"
            "  --head H             as the file's class says, or causal-lm, masked-lm,\n"
            "                       seq2seq-lm, sequence-classification, encoder, none,\n"
            "                       token-classification, question-answering,\n"
            "                       image-classification\n"
            "  --precision P        fp32, tf32, amp-bf16, amp-fp16, bf16, fp16; default fp32;\n"
            "                       in inference that of the file, with --qlora autocast\n"
            "  --master-weights     float32 copies beside bf16 or fp16 weights\n"
            "  --optimizer O        sgd, sgd-m, adamw, adamw-fused, adamw-loop, adafactor,\n"
            "                       adam8bit, paged-adam8bit, lion, muon, galore, apollo\n"
            "  --checkpointing[=C]  full, selective, or K for every K-th block\n"
            "  --accumulation N     micro-batches of a step\n"
            "  --attention A        eager, sdpa, flash\n"
            "  --loss-chunks N      the loss in N pieces; --fused-loss: as Liger's kernel\n"
            "  --padding[=N]        padded samples, with a mask; to a multiple of N tokens\n"
            "  --lora R, --qlora R  adapters of rank R; with the weights in 4 bits\n"
            "  --lora-targets T     all-linear, or modules as q_proj,v_proj\n"
            "  --offload W          optimizer, weights or spill, to the CPU's memory\n"
            "  --inference          without a graph; --generate N tokens after the prompt\n"
            "  --kv-dtype T         keys and values of --generate in bf16, fp16, fp8, int8 or\n"
            "                       int4; --static-cache: room for all tokens at once\n"
            "  --without-loss       with --inference: no labels, the logits are the result\n"
            "  --keep-graph         a forward pass whose graph is kept\n"
            "  --gpus N             that share the work: --zero 1|2|3 or --fsdp, else DDP\n"
            "  --write-trace FILE   save the planned step as a recording\n"
            "  --from FILE          a recording in place of a model: its largest step, or\n"
            "                       --step K, of --batch-now N and --seq-now N, at another\n"
            "                       --batch and --seq\n"
            "  --trace SCRIPT       a training script in place of a model: Python runs it on\n"
            "                       tensors without data for --steps N (default 3); no GPU;\n"
            "                       --share X of a mask is taken to be set (default 1)\n"
            "  --traced FILE        the same, from the file of a trace\n"
            "  --top N              the N fastest choices; default 10, 0 for all\n"
            "  --json               the plan, as one JSON object\n",
        .examples =
            "  vramwise plan --model llama-3-8b --batch 4 --seq 2048 --card h200\n"
            "  vramwise plan --model ./config.json --precision bf16 --lora 16 --card 24GiB\n"
            "  vramwise plan --from run.pickle --batch-now 8 --batch 16 --card a100-80g\n"
            "  vramwise plan --trace train.py --card rtx4090 -- --epochs 1\n",
        .run = command_plan,
        .has_table = true,
        .reads_files = true,
        .has_sparse_tables = true,
    },
    {
        .name = "replay",
        .summary = "the same requests under other settings, on other cards",
        .have = COMMAND_HAVE_RECORDING,
        .usage = "usage: vramwise replay FILE [OPTION...]\n"
                 "\n"
                 "Plays the requests of a PyTorch memory snapshot through the allocator again, on\n"
                 "a simulated card, and shows what it would have reserved. Without --policy and\n"
                 "--conf: the recorded settings, PyTorch's defaults, expandable segments, and\n"
                 "vramwise's own engine. Exits with 1 if a run ends out of memory.\n"
                 "\n"
                 "  --policy P,...    a comma-separated list of native, expandable, recorded,\n"
                 "                    vramwise, vramwise:rescue and vramwise:tight\n"
                 "  --conf STRING     as PYTORCH_CUDA_ALLOC_CONF; may be repeated\n"
                 "  --card CARD       the memory for PyTorch, such as 24GiB, or a card such as\n"
                 "                    rtx4090: all of it\n"
                 "  --smallest-card   also find the smallest card on which each run completes\n"
                 "  --spill SIZE      let live memory go to so much host memory rather than fail:\n"
                 "                    how much would move, how often, what a step would cost\n"
                 "  --stream          with --spill: data leaves and returns beside the work\n"
                 "  --empty-cache W   call empty_cache() at every step, phase, or N-th step; or\n"
                 "                    never: leave out the calls that were recorded\n"
                 "  --torch VERSION   use the rules of that version, such as 2.4\n"
                 "  --device N        which device; default: the one with the most events\n"
                 "  --json            the numbers, as one JSON object\n",
        .examples = "  vramwise replay run.pickle\n"
                    "  vramwise replay run.pickle --policy expandable,vramwise --card 24GiB\n"
                    "  vramwise replay run.pickle --conf max_split_size_mb:128 --smallest-card\n",
        .run = command_replay,
        .has_table = true,
        .reads_files = true,
    },
    {
        .name = "report",
        .summary = "the recordings and logs of a job, rank by rank",
        .have = COMMAND_HAVE_FOLDER,
        .usage = "usage: vramwise report DIR [-o PAGE.html] [--json] [--top N] [--torch VERSION]\n"
                 "       vramwise report --jobs DIR | LIST | - [--state DIR [--share K/N]]\n"
                 "                       [-o PAGE.html|FILE.sqlite] [--json] [--top N]\n"
                 "       vramwise report --merge STATE... [-o PAGE.html|FILE.sqlite] [--json]\n"
                 "\n"
                 "Reads what the ranks of one job left in a folder: snapshots, step logs, what\n"
                 "they printed. Shows what each rank held and what the doctor finds, and across\n"
                 "ranks which ran out of memory first, which are out of line, and which lines of\n"
                 "the program and which settings differ. The rank of a file is taken from its\n"
                 "name (rank3), its folder, or the labels of its lines; 'vramwise run', torchrun\n"
                 "and Slurm write such files.\n"
                 "\n"
                 "With --jobs it shows the worst job first, failures that several share, and the\n"
                 "days. LIST has a file or a job's folder on each line, or columns path and job.\n"
                 "Reading then takes 384MiB, all threads together, unless --max-memory says more.\n"
                 "\n"
                 "  --jobs            DIR has many jobs: each folder in it is one\n"
                 "  --json            the numbers, as one JSON object\n"
                 "  --merge           make the report of the states of all shares\n"
                 "  --output FILE     also write a page to FILE (also -o); - is standard output.\n"
                 "                    FILE.sqlite is a table of many jobs\n"
                 "  --share K/N       examine only the K-th of N shares of the files\n"
                 "  --state DIR       keep results in DIR; what is there is not read again\n"
                 "  --top N           the N lines that differ most; default 10, 0 for all\n"
                 "  --torch VERSION   use the rules of that version, such as 2.4\n",
        .examples = "  vramwise report logs/\n"
                    "  vramwise report logs/ -o job.html\n"
                    "  vramwise report --jobs /shared/jobs --state week -o week.html\n",
        .run = command_report,
        .has_table = true,
        .reads_files = true,
    },
    {
        .name = "run",
        .summary = "run a program, and have the doctor there if memory runs out",
        .have = COMMAND_HAVE_PROGRAM,
        .usage = "usage: vramwise run [OPTION...] [--] COMMAND [ARGUMENT...]\n"
                 "\n"
                 "Runs COMMAND as it is, with a history of its GPU memory kept in each process\n"
                 "that uses PyTorch. If one runs out of memory, the history is saved, and the\n"
                 "doctor's report and the file's name are shown. Exits as COMMAND did: 128+n if\n"
                 "signal n killed it, 125 if it could not be started. VRAMWISE_DISABLE=1 in the\n"
                 "environment switches everything off.\n"
                 "\n"
                 "  --allocator A     with that allocator: pytorch (its own, as it is), torch,\n"
                 "                    vramwise, vramwise:rescue or vramwise:tight\n"
                 "  --history N       keep the last N events, with the stacks of all steps; 0 for\n"
                 "                    none. Default: 100000, as far as that costs little time\n"
                 "  --keep-free SIZE  leave so much of each GPU (2GiB, 5%) to others: idle memory\n"
                 "                    goes back by itself. With --allocator vramwise\n"
                 "  --metrics ADDR    serve metrics of its processes to Prometheus, at a port, or\n"
                 "                    an address and a port; 0 is a free port\n"
                 "  --on-leak DO      if memory grows step after step: warn once, with the line;\n"
                 "                    snapshot: keep one, too; stop: end the job, too\n"
                 "  --record FILE     save the whole history in FILE at the end; rank 3 writes to\n"
                 "                    FILE with .rank3 before its ending\n"
                 "  --spill SIZE      where a GPU is full, let so much live data go to host\n"
                 "                    memory: slower, but no error. With --allocator vramwise\n"
                 "  --stream          with --spill: optimizer state, then saved tensors, leave\n"
                 "                    and return beside the computation\n",
        .examples = "  vramwise run python train.py\n"
                    "  vramwise run --record run.pickle torchrun --nproc-per-node 8 train.py\n"
                    "  vramwise run --allocator vramwise --spill 32GiB --stream python train.py\n",
        .run = command_run,
        .runs_another = true,
    },
    {
        .name = "stats",
        .summary = "what is in a recording: peaks, and who used the memory",
        .have = COMMAND_HAVE_RECORDING,
        .usage =
            "usage: vramwise stats FILE [--json] [--stacks] [--top N] [--torch VERSION]\n"
            "                      [--no-summary]\n"
            "\n"
            "Shows what a PyTorch memory snapshot holds: the settings, the peaks, the largest\n"
            "users at the peak and at the end, and torch.cuda.memory_summary() as it would\n"
            "have been printed then.\n"
            "\n"
            "  --json            the numbers, as one JSON object\n"
            "  --no-summary      without memory_summary(), which takes a replay to make\n"
            "  --stacks          also the innermost frames of each user\n"
            "  --top N           the N largest users; default 10, 0 for all\n"
            "  --torch VERSION   use the rules of that version for the summary, such as 2.4\n",
        .examples = "  vramwise stats run.pickle\n"
                    "  vramwise stats run.pickle --top 0 --csv > users.csv\n",
        .run = command_stats,
        .has_table = true,
        .reads_files = true,
    },
    {
        .name = "top",
        .summary = "GPUs and jobs as they are now: who holds what, and who leaks",
        .have = COMMAND_HAVE_JOBS,
        .usage = "usage: vramwise top [PID] [--interval SECONDS] [--once] [--json]\n"
                 "\n"
                 "Shows the GPUs of this machine and the processes on them; for those that run\n"
                 "with vramwise also what is live, reserved and idle, the trend, the time of a\n"
                 "step, what waits for input and what leaks. With PID: the details of that\n"
                 "process. On the screen, h shows help and q quits.\n"
                 "\n"
                 "  --interval SECONDS   time between two looks; default 1\n"
                 "  --once               no screen: one table, as text\n"
                 "  --json               no screen: the numbers, as one JSON object\n",
        .examples = "  vramwise top\n"
                    "  vramwise top --once\n"
                    "  vramwise top 4711\n",
        .run = command_top,
        .has_table = true,
    },
    {
        .name = "tune",
        .summary = "the allocator settings with which a recording fits a card",
        .have = COMMAND_HAVE_RECORDING,
        .usage =
            "usage: vramwise tune FILE --card CARD [--torch VERSION] [--device N] [--json]\n"
            "       vramwise tune --all DIR | LIST | - --card CARD [--torch VERSION] [--json]\n"
            "                     [--state DIR [--share K/N]] [--top N]\n"
            "       vramwise tune --merge STATE... [--json] [--top N]\n"
            "\n"
            "Tries settings of PYTORCH_CUDA_ALLOC_CONF on the requests of a PyTorch memory\n"
            "snapshot, each by a replay, and names the best for CARD. Where no setting fits,\n"
            "it names vramwise's own engine if that does; exits with 1 if nothing fits.\n"
            "\n"
            "With --all it finds one setting for all jobs of a folder, and one for each kind\n"
            "of job: how many fit, what it saves, which jobs it would break. LIST has a file\n"
            "or a job's folder on each line, or columns path, job and kind. Exits with 1 if a\n"
            "job does not fit with the setting for all, or cannot be replayed. Reading takes\n"
            "384MiB, all threads together, unless --max-memory says more.\n"
            "\n"
            "  --all             DIR has many jobs: each folder in it is one\n"
            "  --card CARD       the memory to fit into: 24GiB, or a card such as rtx4090\n"
            "  --device N        which device; default: the one with the most events\n"
            "  --json            the numbers, as one JSON object\n"
            "  --merge           show what the states of all shares come to\n"
            "  --share K/N       try only the K-th of N shares of the recordings\n"
            "  --state DIR       keep results in DIR; what is there is not tried again\n"
            "  --top N           the N best settings, and jobs; default 10, 0 for all\n"
            "  --torch VERSION   use the rules of that version, such as 2.4\n",
        .examples = "  vramwise tune run.pickle --card 24GiB\n"
                    "  vramwise tune run.pickle --card rtx4090 --json | jq -r .best.conf\n"
                    "  vramwise tune --all /shared/jobs --card 80GiB --state tuned\n",
        .run = command_tune,
        .has_table = true,
        .reads_files = true,
    },
    {
        .name = "verify",
        .summary = "prove the replay on a recording, event by event",
        .have = COMMAND_HAVE_RECORDING,
        .usage =
            "usage: vramwise verify FILE [--torch VERSION] [--expect FILE.json] [--json]\n"
            "\n"
            "Replays a PyTorch memory snapshot and compares: every segment event, the address\n"
            "of every block and the segments at the end must come out as recorded. Exits with\n"
            "1 at a difference, and shows the first.\n"
            "\n"
            "  --expect FILE     what PyTorch said at the end, as JSON, to compare as well\n"
            "  --torch VERSION   use the rules of that version, such as 2.4\n"
            "  --json            the result, as one JSON object\n",
        .examples = "  vramwise verify run.pickle\n",
        .run = command_verify,
        .reads_files = true,
    },
    {
        .name = "view",
        .summary = "look at a recording, or at two, in the browser",
        .have = COMMAND_HAVE_RECORDING,
        .usage =
            "usage: vramwise view FILE [FILE] [-o PAGE.html | --serve [ADDR]] [--no-what-if]\n"
            "                     [--torch VERSION]\n"
            "\n"
            "Writes a page that shows a PyTorch memory snapshot: memory over time, who holds\n"
            "it, where it lies, what the doctor finds and what other allocators would do.\n"
            "With two files it also shows what changed. The page is one file that needs\n"
            "nothing else, and goes beside the recording, as FILE.html. It is opened if there\n"
            "is a display.\n"
            "\n"
            "  --output PAGE     write it there (also -o); - is standard output\n"
            "  --serve [ADDR]    write nothing, and serve it until Ctrl-C, at 127.0.0.1 and a\n"
            "                    free port, or at ADDR: a port, or an address and a port\n"
            "  --no-what-if      without replays under other allocators, which take a while\n"
            "  --torch VERSION   use the rules of that version, such as 2.4\n",
        .examples = "  vramwise view run.pickle\n"
                    "  vramwise view before.pickle after.pickle -o page.html\n"
                    "  vramwise view run.pickle --serve 8080\n",
        .run = command_view,
        .reads_files = true,
    },
    {
        .name = "wake",
        .summary = "a parked job gets its GPU memory back, and goes on",
        .have = COMMAND_HAVE_JOBS,
        .usage =
            "usage: vramwise wake PID [REGION] [--timeout SECONDS] [--json]\n"
            "\n"
            "Brings the GPU memory of a parked job back, under the same addresses: all of it,\n"
            "or that of a region. Where the GPU has no room, says how much is missing and who\n"
            "has it; everything stays parked, and it can be tried again.\n"
            "\n"
            "  --timeout SECONDS   how long to wait for the job's answer; default 60\n"
            "  --json              what was moved, as one JSON object\n",
        .examples = "  vramwise wake 4711\n",
        .run = command_wake,
    },
};

#define COMMAND_COUNT (sizeof commands / sizeof commands[0])

static const command *find_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static int refuse_unknown_command(const char *name)
{
    const char *names[COMMAND_COUNT];
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        names[i] = commands[i].name;
    const char *nearest = arguments_nearest(name, names, COMMAND_COUNT);
    safe_print_error("vramwise: there is no command '%s'", name);
    if (nearest != NULL)
        fprintf(stderr, "; did you mean '%s'?", nearest);
    fputs("\nTry 'vramwise help'.\n", stderr);
    return EXIT_WRONG_USAGE;
}

static int command_help(int argc, char **argv)
{
    int first_operand = 0;
    if (!arguments_parse(NULL, 0, argc, argv, &first_operand))
        return EXIT_WRONG_USAGE;
    if (argc - first_operand > 1)
        return arguments_refuse(argv[0], "one command at a time, not %d", argc - first_operand);
    if (first_operand == argc) {
        help_print_commands(stdout, commands, COMMAND_COUNT);
        return EXIT_DONE;
    }
    const command *subject = find_command(argv[first_operand]);
    if (subject == NULL)
        return refuse_unknown_command(argv[first_operand]);
    help_print_usage(subject);
    return EXIT_DONE;
}

/* Returns whether --help is among the command's arguments, which end at `--`. */
static bool wants_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

/* A command makes large arrays, gives them back and makes others, then ends. Left to itself, malloc
 * takes each from the system anew, page by page, and a quarter of the time goes into that; so it
 * keeps what it has, and has it in huge pages where the system lends them. The room is only
 * addresses until it is used. Only in the program: what a library's caller does with memory is the
 * caller's business. */
static void keep_memory(void)
{
#if defined(__GLIBC__)
    enum { MOST_KEPT_BYTES = 1 << 30, ROOM_BYTES = 512 << 20, STEP_BYTES = 16 << 20 };
    if (mallopt(M_MMAP_THRESHOLD, MOST_KEPT_BYTES) != 1)
        return; /* a sanitizer's malloc, which takes no advice */
    (void)mallopt(M_TRIM_THRESHOLD, MOST_KEPT_BYTES);
    (void)mallopt(M_TOP_PAD, STEP_BYTES);
    (void)mallopt(M_ARENA_MAX, 1);
    char *room = malloc(ROOM_BYTES); /* to be kept, not used: where it is, arrays will be */
    if (room == NULL)
        return; /* less is allowed here */
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    size_t skipped_bytes = page_bytes - (uintptr_t)room % page_bytes;
    (void)madvise(room + skipped_bytes, ROOM_BYTES - skipped_bytes, MADV_HUGEPAGE);
    free(room);
#endif
}

static int run_command(int argc, char **argv)
{
    const command *chosen = find_command(argv[0]);
    if (chosen == NULL)
        return refuse_unknown_command(argv[0]);
    if (wants_help(argc, argv)) {
        help_print_usage(chosen);
        return EXIT_DONE;
    }
    if (!chosen->runs_another && !common_options_take(&argc, argv, chosen))
        return EXIT_WRONG_USAGE;
    if (chosen->runs_another)
        file_guard_lift(); /* it sees to signals itself */
    if (chosen->reads_files)
        memory_guard_set();
    if (!chosen->has_sparse_tables)
        keep_memory();
    return chosen->run(argc, argv);
}

static int run_program(int argc, char **argv)
{
    if (argc < 2) {
        help_print_commands(stderr, commands, COMMAND_COUNT);
        return EXIT_WRONG_USAGE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("vramwise %s\n", vw_version_string());
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        help_print_commands(stdout, commands, COMMAND_COUNT);
        return EXIT_DONE;
    }
    if (argv[1][0] == '-') {
        safe_print_error("vramwise: unknown option '%s'", argv[1]);
        fputs("\nTry 'vramwise help'.\n", stderr);
        return EXIT_WRONG_USAGE;
    }
    return run_command(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    terminal_hold_streams();
    file_guard_set();
    setlocale(LC_CTYPE, ""); /* which characters a terminal shows; numbers stay as in C */
    return terminal_finish(run_program(argc, argv));
}
