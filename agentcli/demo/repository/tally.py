"""Count the words of a text."""

import re


def words(text):
    """The words of `text` in lower case; an apostrophe inside a word belongs to it."""
    return re.findall(r"[a-z]+", text.lower())


def most_common(text, count):
    """The `count` most frequent words with their numbers, ties in alphabetical order."""
    numbers = {}
    for word in words(text):
        numbers[word] = numbers.get(word, 0) + 1
    ranked = sorted(numbers.items(), key=lambda item: (-item[1], item[0]))
    return ranked[:count]
