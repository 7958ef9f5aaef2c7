"""Google, through its OpenAI-compatible endpoint.

From Gemini 3 on, a call must come back with the signature that it came with; for calls of other
models there is one that passes. Sources: ai.google.dev/gemini-api/docs/openai and
/thought-signatures; pydantic-ai's profile of Google's models.
"""

from agentcli.llm.provider import GEMINI_STAND_IN, Provider, Traits, levels

PROVIDER = Provider(
    title="Google Gemini",
    base_url="https://generativelanguage.googleapis.com/v1beta/openai",
    key_env="GEMINI_API_KEY",
    keys_page="https://aistudio.google.com/apikey",
    default_model="gemini-3.8-flash",
    price_list="google",
    own_models="gemini-",
    traits=Traits(
        efforts=levels("minimal low medium high"),
        schema="gemini",
        stand_in=GEMINI_STAND_IN,
    ),
    models={
        r"gemini-(3-pro|3\.1-pro|3\.7-flash)": {"efforts": levels("low medium high")},
        r"gemini-2": {"efforts": levels("none low medium high"), "stand_in": {}},
        r"gemini-2.*-pro": {"efforts": levels("low medium high")},
        r"gemma|gemini-[12]\.[0-4]": {"efforts": {}},
    },
    rank=4,
)
