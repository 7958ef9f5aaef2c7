"""Google, through its OpenAI-compatible endpoint."""

from agentcli.llm.provider import Provider

PROVIDER = Provider(
    protocol="chat_completions",
    title="Google Gemini",
    base_url="https://generativelanguage.googleapis.com/v1beta/openai",
    key_env="GEMINI_API_KEY",
    keys_page="https://aistudio.google.com/apikey",
    default_model="gemini-3.8-flash",
    price_list="google",
    own_models="gemini-",
    rank=4,
)
