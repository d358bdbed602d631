# bash completion for headroom
_headroom() {
    local word=${COMP_WORDS[COMP_CWORD]} command='' index
    COMPREPLY=()
    for ((index = 1; index < COMP_CWORD; index++)); do
        if [[ ${COMP_WORDS[index]} != -* ]]; then
            command=${COMP_WORDS[index]}
            break
        fi
    done
    case $command in
    '') mapfile -t COMPREPLY < <(compgen -W 'demo help --help --version' -- "$word") ;;
    help) mapfile -t COMPREPLY < <(compgen -W 'demo help' -- "$word") ;;
    demo) mapfile -t COMPREPLY < <(compgen -W '--help --json --summary' -- "$word") ;;
    esac
}
complete -F _headroom headroom
