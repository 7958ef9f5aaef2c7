"""The imports inside functions, each with its reason: file, module, why it is not at the top.

Times are those of the import alone, on two cores with Python 3.11.
"""

_LAYER = "13 ms, all five; when the session's commands are prepared"
LAZY_IMPORTS = {
    ("agent/prompts/__init__.py", "jinja2"): "25 ms; system texts are kept once they are made",
    ("app/checkpoints.py", "agentcli.security.commands.read_only"): "30 ms; after the first reply",
    ("app/hooks.py", "agentcli.security.commands.shell_words"): "only for hooks of a project",
    ("app/knowledge.py", "agentcli.sessions.search.excerpts"): "75 ms, with SQLite; for one tool",
    ("app/policy.py", "agentcli.app.full_policy"): "100 ms; after the first reply",
    ("app/trust.py", "agentcli.security.policy.rules"): "35 ms; for rules of an untrusted project",
    ("checkpoints/checkpointer.py", "agentcli.checkpoints.snapshots"): "after the first reply",
    ("cli/commands/resume.py", "agentcli.cli.stored_session"): "--help needs nothing of it",
    ("cli/commands/resume.py", "agentcli.cli.work"): "300 ms; --help needs nothing of it",
    ("cli/commands/run.py", "agentcli.cli.new_session"): "--help needs nothing of it",
    ("cli/commands/run.py", "agentcli.cli.stored_session"): "10 ms; new sessions don't need it",
    ("cli/commands/run.py", "agentcli.cli.work"): "300 ms; --help needs nothing of it",
    ("cli/entry.py", "agentcli.cli.app"): "loaded when signals and streams are prepared",
    ("cli/entry.py", "agentcli.cli.complaints"): "100 ms, with pydantic; for what goes wrong",
    ("cli/main.py", "agentcli.cli.entry"): "--version needs nothing of it",
    ("cli/main.py", "agentcli.system.programs"): "--version needs nothing of it",
    ("cli/session_common.py", "rich.console"): "45 ms; at terminals only",
    ("cli/stored_session.py", "agentcli.cli.choose_session"): "60 ms, with prompt_toolkit",
    ("cli/streams.py", "agentcli.cli.complaints"): "for warnings, of which there are none",
    ("extensions.py", "importlib.metadata"): "45 ms; where outside packages enter something",
    ("knowledge/front_matter.py", "yaml"): "15 ms; for skills that have front matter",
    ("llm/catalog.py", "genai_prices"): "prices, after the first reply",
    ("llm/catalog.py", "genai_prices.data_snapshot"): "only for models without a set window",
    ("llm/classify.py", "httpx2"): "an SDK's; loaded with it",
    ("llm/sdk.py", "agentcli.llm.bounded_http"): "loads the SDK's HTTP client",
    ("llm/registry.py", "http.client"): "to look for local servers, where there is no key",
    ("sandbox/choosing.py", "agentcli.sandbox.bubblewrap"): _LAYER,
    ("sandbox/choosing.py", "agentcli.sandbox.landlock"): _LAYER,
    ("sandbox/choosing.py", "agentcli.sandbox.resource_limits"): _LAYER,
    ("sandbox/choosing.py", "agentcli.sandbox.seatbelt"): _LAYER,
    ("sandbox/choosing.py", "agentcli.sandbox.seccomp"): _LAYER,
    ("security/commands/grammar.py", "tree_sitter"): "a compiled library; for commands only",
    ("security/commands/grammar.py", "tree_sitter_bash"): "a compiled library; for commands only",
    ("shell/terminal.py", "pexpect"): "25 ms; when the shell starts",
    ("tools/write.py", "agentcli.files.toml_text"): "for files of that format",
    ("ui/markdown_stream.py", "agentcli.ui.markdown_theme"): "60 ms, with Rich; at terminals only",
}
