"""Replacing images in conversations with models that take none."""

from __future__ import annotations

from dataclasses import replace

from agentcli.messages import Message


def without_images(message: Message, images: bool) -> Message:
    """Return `message` unchanged if the model takes `images`; otherwise with a note in their place,
    so that the model knows there is something it can't see."""
    count = len(message.image_urls)
    if images or not count:
        return message
    note = f"[{f'{count} images' if count > 1 else 'an image'} here, which you can't be shown]"
    return replace(message, content=f"{message.content}\n{note}".strip(), image_urls=())
