"""The attempts by what they are after, and what is known to be in reach."""

from __future__ import annotations

from agentcli.sandbox.landlock import SOCKETS_VERSION, landlock_version

FILES = """
write_by_path write_by_dots write_by_symlink write_by_hard_link write_by_moving_in
write_by_moving_out write_by_proc_root write_by_root_of_others write_by_open_descriptors
write_by_race write_by_detached_process write_by_multiprocessing remove empty make_folder
change_mode set_id_outside write_start_files write_system write_kernel_settings
""".split()  # noqa: SIM905
ATTRIBUTES = ["set_attribute", "give_access_to_others", "set_flags"]
"""Of files elsewhere; not every file system has them."""
MODES = """
set_id_by_chmod set_group_id_by_chmod set_id_by_chmod_in_folder set_id_by_fchmod set_id_by_creating
set_id_by_old_calls set_id_by_new_calls set_id_by_node set_id_by_nameless_file set_id_as_32_bit
""".split()  # noqa: SIM905
GIT = """
git_hook git_config git_config_by_git git_config_replaced git_hooks_replaced git_moved_away
git_common_folder git_submodule_hook git_submodule_config git_folders_replaced
""".split()  # noqa: SIM905
SECRETS = """
read_ssh_key read_ssh_key_by_link read_ssh_key_by_hard_link read_ssh_key_moved
read_ssh_key_by_root_of_others read_cloud_credentials read_own_environment
read_other_environments read_other_command_lines read_memory_of_others
""".split()  # noqa: SIM905
OWN = """
read_own_files list_own_sessions write_own_files replace_own_files move_own_folders
plant_new_own_files
""".split()  # noqa: SIM905
NETWORK = """
tcp tcp_v6 tcp_by_bash udp dns raw ping_socket packet netlink vsock io_uring unix_by_path
unix_by_link unix_abstract unix_datagram unix_datagram_by_path unix_among_many
""".split()  # noqa: SIM905
ESCAPES = """
new_namespaces new_namespaces_by_clone unshare_program join_namespaces mount unmount change_root
make_device trace_agent peek_at_agent signal_agent signal_agent_by_descriptor
limit_agent raise_own_limits slow_agent_down kill_everyone type_at_terminal
write_to_other_terminals gain_rights_by_setuid have_capabilities name_the_machine set_the_clock
load_a_module program_the_kernel use_keys_of_the_kernel call_as_32_bit
""".split()  # noqa: SIM905
SHARED = """
shared_memory message_queue message_to_queue semaphores posix_queue posix_memory pipe_read
pipe_write pipe_at_home_read pipe_at_home_write file_of_another_user
""".split()  # noqa: SIM905


def in_reach(layer: str, *, root: bool) -> set[str]:
    """What a layer can't keep from commands, as docs/safety.md says."""
    if layer == "bubblewrap":
        return {"pipe_read", "pipe_write"}
    sockets = set()
    if landlock_version() < SOCKETS_VERSION:
        sockets = {"unix_by_path", "unix_by_link", "unix_datagram_by_path", "unix_among_many"}
    listings = {"list_own_sessions", "read_other_command_lines"}
    priority = set() if root else {"slow_agent_down"}
    alone = {"change_mode", "posix_memory"} if layer == "landlock alone" else set()
    return {*GIT, *alone, *sockets, "pipe_read", "pipe_at_home_read", *listings, *priority}


HARMLESS_WITHOUT_SANDBOX = [
    *(name for name in FILES if name not in ("write_system", "write_kernel_settings")),
    *MODES,
    *GIT,
    *(name for name in SECRETS if name != "read_own_environment"),
    *(name for name in OWN if name != "move_own_folders"),
    *("tcp", "tcp_v6", "tcp_by_bash", "netlink", "unix_by_path", "unix_by_link"),
    *("unix_abstract", "unix_datagram", "unix_datagram_by_path", "unix_among_many"),
    *(name for name in SHARED if name != "file_of_another_user"),
    *("trace_agent", "peek_at_agent", "signal_agent"),
    *("signal_agent_by_descriptor", "limit_agent", "slow_agent_down", "kill_everyone"),
    "write_to_other_terminals",
]
"""What may be tried where nothing holds it, and then succeeds: so what it is for is real."""
