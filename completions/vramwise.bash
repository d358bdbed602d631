# bash completion for vramwise

# Files and folders that begin with what was typed, and words beside them.
_vramwise_files() {
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -W "${2-}" -- "$1")
}

# The models or the cards that are built in: two tables with a blank line between.
_vramwise_listed() {
    local names
    names=$(vramwise plan --list 2>/dev/null) || return
    case $1 in
    models) names=${names%%$'\n\n'*} ;;
    cards) names=${names#*$'\n\n'} ;;
    esac
    tail -n +2 <<< "$names" | cut -d ' ' -f 1 | tr '\n' ' '
}

# Words out of a list.
_vramwise_words() {
    mapfile -t COMPREPLY < <(compgen -W "$2" -- "$1")
}

# The last name in a list with commas between.
_vramwise_policies() {
    local before='' names='native expandable recorded vramwise vramwise:rescue vramwise:tight'
    [[ $1 == *,* ]] && before=${1%,*},
    mapfile -t COMPREPLY < <(compgen -P "$before" -W "$names" -- "${1##*,}")
    compopt -o nospace 2>/dev/null
}

# The processes with a page, by the names of those: vramwise-live-USER-PROCESS-...
_vramwise_jobs() {
    local page pages=(/run/vramwise/vramwise-live-* /dev/shm/vramwise-live-*)
    [[ $VRAMWISE_LIVE_DIR ]] && pages=("$VRAMWISE_LIVE_DIR"/vramwise-live-*)
    for page in "${pages[@]}"; do
        page=${page##*/vramwise-live-}
        page=${page#*-}
        [[ ${page%%-*} != *[!0-9]* ]] && echo "${page%%-*}"
    done
}

_vramwise() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command='' index
    local versions='1.6 1.7 1.8 1.9 1.10 1.11 1.12 1.13 2.0 2.1 2.2 2.3 2.4 2.5 2.6 2.7 2.8 2.9 2.10 2.11 2.12 2.13 2.14 2.15'
    local cards='8GiB 12GiB 16GiB 24GiB 32GiB 40GiB 48GiB 80GiB'
    local commands='check demo diff doctor exporter help mcp park plan replay report run stats top tune verify view wake' options=''
    COMPREPLY=()
    for ((index = 1; index < COMP_CWORD; index++)); do
        if [[ ${COMP_WORDS[index]} != -* ]]; then
            command=${COMP_WORDS[index]}
            break
        fi
    done
    case $command in
    '') _vramwise_words "$word" "$commands --help --version"; return ;;
    help) _vramwise_words "$word" "$commands"; return ;;
    demo) _vramwise_words "$word" 'techniques --color --help --json --summary'; return ;;
    check) options='--baseline --color --csv --help --json --max-growth --max-memory --top --write-baseline' ;;
    diff) options='--color --csv --help --json --max-memory --stacks --top' ;;
    doctor) options='--all --attach --card --color --csv --help --json --max-memory --pid --torch' ;;
    exporter) options='--all-users --color --help --listen --pod-logs --token-file' ;;
    mcp) options='--color --help' ;;
    park | wake) options='--color --help --json --timeout' ;;
    plan) options='--accumulation --attention --batch --batch-now --card --checkpointing --from --fsdp
        --fused-loss --generate --gpus --head --color --csv --help --image --inference --json --keep-graph --kv-dtype --list --lora --lora-targets --loss-chunks --master-weights --max-memory
        --model --offload --optimizer --padding --precision --qlora --seq --seq-now --share --static-cache --step --steps --top --trace --traced --without-loss --write-trace
        --zero' ;;
    replay) options='--card --conf --device --empty-cache --color --csv --help --json --max-memory --policy
        --smallest-card --spill --stream --torch' ;;
    report) options='--color --csv --help --jobs --json --max-memory --merge --output --share --state --top --torch' ;;
    run) options='--allocator --color --help --history --keep-free --metrics --on-leak --record --spill --stream' ;;
    stats) options='--color --csv --help --json --max-memory --no-summary --stacks --top --torch' ;;
    top) options='--color --csv --help --interval --json --once' ;;
    tune) options='--all --card --device --color --csv --help --json --max-memory --merge --share --state --top --torch' ;;
    verify) options='--expect --color --help --json --max-memory --torch' ;;
    view) options='--color --help --max-memory --no-what-if --output --serve --torch' ;;
    *) return ;;
    esac
    [[ $word == : ]] && before=: word='' # bash cuts words at colons
    case $before in
    :) _vramwise_words "$word" 'rescue tight' ;; # of vramwise:rescue
    --allocator) _vramwise_words "$word" 'pytorch torch vramwise vramwise:rescue vramwise:tight' ;;
    --color) _vramwise_words "$word" 'auto always never' ;;
    --attention) _vramwise_words "$word" 'eager sdpa flash' ;;
    --card)
        cards+=" $(_vramwise_listed cards)"
        _vramwise_words "$word" "$cards"
        ;;
    --conf | --device | --history | --interval | --pid | --top) ;;
    --listen | --metrics) _vramwise_words "$word" '0 17470 127.0.0.1:17470 0.0.0.0:17470' ;;
    --accumulation | --batch | --batch-now | --generate | --gpus | --image | --lora | --loss-chunks | \
        --qlora | --seq | --seq-now | --step | --steps) ;;
    --model) _vramwise_files "$word" "$(_vramwise_listed models)" ;;
    --head) _vramwise_words "$word" 'auto causal-lm masked-lm seq2seq-lm sequence-classification token-classification
        question-answering image-classification encoder none' ;;
    --keep-free) _vramwise_words "$word" '5% 10% 1GiB 2GiB 4GiB 8GiB' ;;
    --max-memory | --spill) _vramwise_words "$word" '4GiB 8GiB 16GiB 32GiB 64GiB' ;;
    --on-leak) _vramwise_words "$word" 'warn snapshot stop' ;;
    --offload) _vramwise_words "$word" 'optimizer weights spill' ;;
    --optimizer) _vramwise_words "$word" 'sgd sgd-m adamw adamw-fused adamw-loop adafactor adam8bit paged-adam8bit lion muon galore apollo' ;;
    --lora-targets) _vramwise_words "$word" 'all-linear' ;;
    --precision) _vramwise_words "$word" 'fp32 tf32 amp-bf16 amp-fp16 bf16 fp16 auto' ;;
    --kv-dtype) _vramwise_words "$word" 'auto bf16 fp16 fp8 int8 int4' ;;
    --zero) _vramwise_words "$word" '1 2 3' ;;
    --empty-cache) _vramwise_words "$word" 'step phase never' ;;
    --max-growth) _vramwise_words "$word" '0 1% 2% 5%' ;;
    --baseline | --expect | --output | --record | --trace | --traced | --write-baseline | --write-trace | -o)
        _vramwise_files "$word"
        ;;
    --policy) _vramwise_policies "$word" ;;
    --torch) _vramwise_words "$word" "$versions" ;;
    *)
        if [[ $word == -* ]]; then
            _vramwise_words "$word" "$options"
        elif [[ $command == top ]]; then
            _vramwise_words "$word" "$(_vramwise_jobs)"
        else
            _vramwise_files "$word"
        fi
        ;;
    esac
}
complete -F _vramwise vramwise
