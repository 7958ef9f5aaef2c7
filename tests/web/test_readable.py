"""Pages as documentation tools make them, as a model gets them."""

from __future__ import annotations

from agentcli.web.addresses import Page
from agentcli.web.pages import readable

AROUND = (
    "<a href='#main'>Skip to content</a><ul>" + "<li><a href='/x'>A page</a></li>" * 3 + "</ul>"
)


def markdown(body: str) -> str:
    page = Page("https://docs.example/a/b.html", 200, data=body.encode(), content_type="text/html")
    return readable(page, "html").text


def test_a_short_page_is_told_without_what_stands_around_it():
    index = "<h1>Naming</h1><ul><li><a href='slugs.html'>Slugs</a></li></ul>"
    assert markdown(f"{AROUND}<article role=main>{index}</article>") == (
        "# Naming\n\n- [Slugs](https://docs.example/a/slugs.html)"
    )


def test_the_menus_are_told_where_there_is_nothing_else():
    assert "[A page](https://docs.example/x)" in markdown(f"{AROUND}<main></main>")


def test_code_keeps_its_language_and_its_line_numbers_go():
    numbered = (
        "<div class='highlight-rust'><table><tr><td class='linenos'><pre>1\n2</pre></td>"
        "<td class='code'><pre>fn f() {\n}</pre></td></tr></table></div>"
    )
    plain = "<pre><code class='language-sh'>$ ls\n$ cd x</code></pre>"
    text = markdown(f"<main>{plain}{numbered}</main>")
    assert "```sh\n$ ls\n$ cd x\n```" in text
    assert "fn f() {\n}" in text
    assert "1\n2" not in text
