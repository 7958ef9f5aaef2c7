#compdef agent
# Completion of agent for zsh.
_agent() {
    local -a answer values
    answer=("${(@f)$(agent __complete zsh "${(j: :)words[1,CURRENT-1]} $PREFIX" 2>/dev/null)}")
    values=("${(@)answer[2,-1]}")
    case $answer[1] in
        files) _files ;;
        folders) _files -/ ;;
        joined) _describe -V agent values -S '' ;;
        *) _describe -V agent values ;;
    esac
}
if [ "$funcstack[1]" = _agent ]; then
    _agent "$@"
else
    compdef _agent agent
fi
