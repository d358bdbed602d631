# bash completion for headroom

# Files and folders that begin with what was typed.
_headroom_files() {
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$1")
}

# Words out of a list.
_headroom_words() {
    mapfile -t COMPREPLY < <(compgen -W "$2" -- "$1")
}

# The last name in a list with commas between.
_headroom_policies() {
    local before='' names='native expandable recorded headroom headroom:rescue headroom:tight'
    [[ $1 == *,* ]] && before=${1%,*},
    mapfile -t COMPREPLY < <(compgen -P "$before" -W "$names" -- "${1##*,}")
    compopt -o nospace 2>/dev/null
}

_headroom() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command='' index
    local versions='1.6 1.7 1.8 1.9 1.10 1.11 1.12 1.13 2.0 2.1 2.2 2.3 2.4 2.5 2.6 2.7 2.8 2.9 2.10 2.11 2.12 2.13 2.14 2.15'
    local commands='demo diff doctor help replay run stats tune verify view' options=''
    COMPREPLY=()
    for ((index = 1; index < COMP_CWORD; index++)); do
        if [[ ${COMP_WORDS[index]} != -* ]]; then
            command=${COMP_WORDS[index]}
            break
        fi
    done
    case $command in
    '') _headroom_words "$word" "$commands --help --version"; return ;;
    help) _headroom_words "$word" "$commands"; return ;;
    demo) _headroom_words "$word" '--help --json --summary'; return ;;
    diff) options='--help --json --stacks --top' ;;
    doctor) options='--card --help --json --torch' ;;
    replay) options='--card --conf --device --empty-cache --help --json --policy
        --smallest-card --torch' ;;
    run) options='--allocator --help --history --record' ;;
    stats) options='--help --json --no-summary --stacks --top --torch' ;;
    tune) options='--card --device --help --json --torch' ;;
    verify) options='--expect --help --json --torch' ;;
    view) options='--help --no-what-if --output --serve --torch' ;;
    *) return ;;
    esac
    [[ $word == : ]] && before=: word='' # bash cuts words at colons
    case $before in
    :) _headroom_words "$word" 'rescue tight' ;; # of headroom:rescue
    --allocator) _headroom_words "$word" 'pytorch torch headroom headroom:rescue headroom:tight' ;;
    --card) _headroom_words "$word" '8GiB 12GiB 16GiB 24GiB 32GiB 40GiB 48GiB 80GiB' ;;
    --conf | --device | --history | --top) ;;
    --empty-cache) _headroom_words "$word" 'step phase never' ;;
    --expect | --output | --record | -o) _headroom_files "$word" ;;
    --policy) _headroom_policies "$word" ;;
    --torch) _headroom_words "$word" "$versions" ;;
    *)
        if [[ $word == -* ]]; then
            _headroom_words "$word" "$options"
        else
            _headroom_files "$word"
        fi
        ;;
    esac
}
complete -F _headroom headroom
