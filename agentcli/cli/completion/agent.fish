# Completion of agent for fish.
function __agent_complete
    set -l answer (agent __complete fish (commandline -cp | string collect) 2>/dev/null)
    switch $answer[1]
        case files
            __fish_complete_path (commandline -ct)
        case folders
            __fish_complete_directories (commandline -ct)
        case '*'
            printf '%s\n' $answer[2..-1]
    end
end
complete -c agent -f -k -a '(__agent_complete)'
