"""Money: no call is made that could pass the limit, whatever the server then says it used."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.agent.ending import Limits
from agentcli.errors import ConfigError, LLMError, LLMErrorKind
from agentcli.events import LLMMetrics
from agentcli.events.actions import MessageAction
from agentcli.events.observations import AttemptsAbandonedObservation
from agentcli.llm.catalog import Catalog
from agentcli.llm.spending import (
    ADDED_TOKENS,
    CallBudget,
    charged,
    input_tokens,
    require_bounds,
    require_price,
    spent_usd,
)
from agentcli.messages import Message, Request, Usage
from agentcli.sessions.state import AgentState, State, apply
from agentcli.settings import AgentSettings

SONNET = "anthropic/claude-sonnet-5-5"


@dataclass(frozen=True)
class Price:
    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


def priced(**prices: Price) -> Catalog:
    return Catalog({f"lab/{name}": price for name, price in prices.items()})


def within(
    request: Request, model: str, body_bytes: int, catalog: Catalog, left_usd: float | None
) -> Request:
    return CallBudget(left_usd).within(request, model, body_bytes, catalog)[0]


def asked(text: str = "hello", **fields) -> Request:
    return Request([Message.user_message(text)], session_id="s", **fields)


def test_without_a_limit_nothing_changes_and_no_price_is_needed():
    request = asked()
    assert within(request, "lab/unpriced", 10_000, priced(), None) is request


def test_what_fits_is_sent_as_it_is():
    request = asked(max_output_tokens=1_000)
    catalog = priced(m=Price(1, 10))
    assert within(request, "lab/m", 10_000, catalog, 1.0) is request


def test_the_output_is_cut_to_what_is_left_to_the_token():
    catalog = priced(m=Price(1, 10))
    cut = within(asked(), "lab/m", 10_000, catalog, 0.05)
    worst = Usage(10_000 + ADDED_TOKENS, cut.max_output_tokens)
    assert catalog.cost("lab/m", worst) <= 0.05
    more = Usage(worst.prompt_tokens, cut.max_output_tokens + 1)
    assert catalog.cost("lab/m", more) > 0.05


def test_what_does_not_fit_is_not_sent_and_says_what_it_could_have_cost():
    with pytest.raises(LLMError) as raised:
        within(asked(), "lab/m", 10_000, priced(m=Price(10, 10)), 0.05)
    error = raised.value
    assert error.kind is LLMErrorKind.BUDGET
    assert not error.retryable
    assert (
        error.message == "the next call to lab/m could cost up to $0.1230, but only $0.0500 is left"
    )
    assert "agent resume s --max-budget-usd" in error.hint


def test_a_limit_for_a_model_without_a_price_is_a_mistake_of_the_settings():
    with pytest.raises(ConfigError, match="price of lab/unpriced is unknown") as raised:
        within(asked(), "lab/unpriced", 100, priced(), 5.0)
    assert '[prices."lab/unpriced"]' in raised.value.hint
    require_price(priced(), SONNET)


@pytest.mark.parametrize("dearest", ["input", "cache_write", "cache_read"])
def test_the_dearest_way_to_read_a_prompt_counts(dearest):
    price = Price(**{"input": 1, "output": 0, "cache_write": 1, "cache_read": 1, dearest: 100})
    with pytest.raises(LLMError):
        within(asked(), "lab/m", 10_000, priced(m=price), 0.5)


def test_a_long_prompt_is_forecast_at_the_price_of_long_prompts():
    """gpt-5.5 costs twice as much beyond 272,000 tokens."""
    catalog = Catalog({})
    short, long = (
        within(asked(), "openai/gpt-5.5", size, catalog, 3.5).max_output_tokens
        for size in (200_000, 300_000)
    )
    assert short == 16_384
    assert long < (3.5 - 300_000 * 10 / 1e6) / 45e-6 + 1


def test_an_image_counts_in_full_however_short_its_address():
    near = [Message.user_message("see", ["https://example.org/a.png"])]
    assert input_tokens(Request(near), SONNET, 300) == 300 + ADDED_TOKENS + 5_000
    assert input_tokens(Request(near), "openai/gpt-4o-mini", 300) >= 48_169


def test_the_data_of_an_image_is_no_text_but_what_else_is_sent_is():
    url = "data:image/png;base64," + "A" * 1_000_000
    request = Request([Message.user_message("look " * 100, [url])])
    assert input_tokens(request, SONNET, 1_000_900) < 10_000
    left_out_by_the_wire_format = input_tokens(request, SONNET, 700)
    assert left_out_by_the_wire_format >= 500 + ADDED_TOKENS


def test_attempts_that_broke_off_count_in_full_refused_ones_not():
    call_budget, catalog = CallBudget(1.0), priced(m=Price(10, 10))
    request, most = call_budget.within(asked(max_output_tokens=1_000), "lab/m", 5_000, catalog)
    assert request.max_output_tokens == 1_000
    assert most == pytest.approx((5_000 + ADDED_TOKENS + 1_000) * 10 / 1e6)
    call_budget.charge_failed(LLMError(LLMErrorKind.RATE_LIMIT, "wait", status=429), most)
    call_budget.charge_failed(LLMError(LLMErrorKind.OVERLOADED, "busy", status=529), most)
    assert call_budget.left_usd == 1.0
    call_budget.charge_failed(LLMError(LLMErrorKind.BAD_RESPONSE, "broke off"), most)
    assert call_budget.left_usd == 1.0 - most
    assert call_budget.lost_usd == most
    unlimited = CallBudget(None)
    assert unlimited.within(request, "lab/unpriced", 5_000, catalog) == (request, 0.0)
    unlimited.charge_failed(LLMError(LLMErrorKind.STALLED, "silence"), 0.0)


def test_a_server_that_counts_nothing_is_charged_all_that_was_possible():
    catalog = priced(m=Price(10, 10))
    assert charged(catalog, "lab/m", Usage(), 0.02) == 0.02
    assert charged(catalog, "lab/m", Usage(), 0.0) is None
    assert charged(catalog, "lab/m", Usage(100_000, 0), 0.02) == 1.0


def test_what_was_used_while_no_price_was_known_is_counted_at_todays():
    used = {"lab/m": {"prompt_tokens": 1_000_000, "completion_tokens": 0, "cost_usd": None}}
    assert spent_usd({**used, "lab/n": {"cost_usd": 0.5}}, priced(m=Price(2, 2))) == 2.5
    with pytest.raises(ConfigError):
        spent_usd(used, priced())


@pytest.mark.parametrize(
    ("extra_body", "drop_params"),
    [({"max_tokens": 9}, ()), ({"n": 4}, ()), ({}, ("max_completion_tokens",))],
)
def test_settings_that_unbind_a_reply_and_a_limit_do_not_go_together(extra_body, drop_params):
    with pytest.raises(ConfigError, match="no budget can be enforced while"):
        require_bounds("lab/m", extra_body, drop_params)
    require_bounds("lab/m", {"top_k": 20}, ("stream_options", "n"))


def test_a_limit_that_is_met_pauses_the_turn_and_says_what_was_spent():
    limits = Limits(AgentSettings(), max_budget_usd=0.05)
    state = apply(State(), said(0.0422, "lab/m"))
    assert limits.left_usd(state) == pytest.approx(0.0078)
    ending = limits.ending_after_failure(
        LLMError(LLMErrorKind.BUDGET, "the next one is too dear"), state
    )
    assert (ending.agent_state, ending.reason, ending.exit_code) == (
        AgentState.PAUSED,
        "max_budget",
        6,
    )
    assert ending.content.startswith("$0.0422 of the budget of $0.05 is spent; the next")
    lost = apply(state, AttemptsAbandonedObservation(most_usd=0.005))
    assert limits.left_usd(lost) == pytest.approx(0.0028)
    broke = limits.ending_after_failure(LLMError(LLMErrorKind.BUDGET, "too dear"), lost)
    assert "and up to $0.0050 on replies that broke off; too dear" in broke.content
    other = limits.ending_after_failure(LLMError(LLMErrorKind.BILLING, "no credit"), state)
    assert (other.agent_state, other.exit_code) == (AgentState.ERROR, 4)


def said(cost_usd: float | None, model: str) -> MessageAction:
    return MessageAction(content="x", llm_metrics=LLMMetrics(model=model, cost_usd=cost_usd))


PRICES = st.builds(
    Price,
    st.floats(0, 100),
    st.floats(0, 500),
    st.none() | st.floats(0, 100),
    st.none() | st.floats(0, 200),
)
BUDGET = 0.05


@given(
    price=PRICES, turns=st.lists(st.integers(1, 20_000), min_size=1, max_size=12), data=st.data()
)
def test_a_budget_is_never_passed(price, turns, data):
    """Several turns, a new process before each: whatever usage a server may report, within the
    output it was allowed and the bytes it was sent, the session never costs more than allowed."""
    catalog = priced(m=price)
    state = State()
    for body_bytes in turns:
        limits = Limits(
            AgentSettings(),
            max_budget_usd=BUDGET,
            spent_usd=lambda s: spent_usd(s.metrics, catalog),
        )
        call_budget = CallBudget(limits.left_usd(state))
        try:
            request, most = call_budget.within(asked(), "lab/m", body_bytes, catalog)
        except LLMError:
            continue
        prompt = data.draw(st.integers(0, body_bytes + ADDED_TOKENS))
        usage = Usage(
            prompt,
            data.draw(st.integers(0, request.max_output_tokens)),
            cache_read_tokens=data.draw(st.integers(0, 2 * prompt)),
            cache_write_tokens=data.draw(st.integers(0, 2 * prompt)),
        )
        cost = charged(catalog, "lab/m", usage, most)
        assert cost is None or cost <= most * (1 + 1e-9)
        state = apply(state, said(cost, "lab/m"))
        assert (state.cost_usd or 0.0) <= BUDGET * (1 + 1e-9)


def test_a_reply_of_fewer_than_256_tokens_is_not_worth_its_prompt():
    a_dollar_a_token = priced(m=Price(0, 1_000_000))
    request = asked(max_output_tokens=1_000)
    assert within(request, "lab/m", 10, a_dollar_a_token, 256.5).max_output_tokens == 256
    with pytest.raises(LLMError, match=r"could cost up to \$256"):
        within(request, "lab/m", 10, a_dollar_a_token, 255.5)
