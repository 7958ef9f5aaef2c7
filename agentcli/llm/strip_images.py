"""Conversations with images for models that take none."""

from __future__ import annotations

from dataclasses import replace

from agentcli.messages import Message


def without_images(message: Message, images: bool) -> Message:
    """`message` for a model that takes `images` or does not: then a note in their place tells it
    that there is something it can't see."""
    count = len(message.image_urls)
    if images or not count:
        return message
    note = f"[{f'{count} images' if count > 1 else 'an image'} here, which you can't be shown]"
    return replace(message, content=f"{message.content}\n{note}".strip(), image_urls=())
