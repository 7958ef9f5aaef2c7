# Completion of agent for bash 4.4 or newer.
_agent() {
    local answer=()
    mapfile -t answer < <(agent __complete bash "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)
    COMPREPLY=()
    case ${answer[0]} in
        files) compopt -o default ;;
        folders) compopt -o dirnames ;;
        joined)
            compopt -o nospace
            COMPREPLY=("${answer[@]:1}")
            ;;
        *) COMPREPLY=("${answer[@]:1}") ;;
    esac
}
complete -o nosort -F _agent agent
