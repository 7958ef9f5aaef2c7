"""Delivery of the messages that reached the session's inbox while the agent worked."""

from __future__ import annotations

from agentcli.agent.agent import Agent
from agentcli.events import Source
from agentcli.events.actions import MessageAction
from agentcli.events.progress import Notice
from agentcli.sessions import inbox
from agentcli.sessions.session import Session


def deliver_queued(agent: Agent, session: Session, delivery: inbox.Delivery) -> bool:
    """Record the messages in the inbox with this `delivery`, and the knowledge that they call for.
    A message that a hook refuses is dropped, and the user is told why. Return whether any was
    recorded."""
    waiting = [m for m in inbox.waiting(session.folder) if m.delivery == delivery]
    recorded = inbox.already_recorded(session.events) if waiting else set()
    delivered = False
    for message in waiting:
        if message.id not in recorded:
            if agent.hooks and (why := agent.hooks.submitting(session, message.text)):
                session.notify(Notice(f"the message {message.text[:40]!r} is not taken: {why}"))
            else:
                session.emit(
                    MessageAction(
                        content=message.text,
                        source=Source.USER,
                        image_urls=message.image_urls,
                        delivery=delivery,
                        inbox_id=message.id,
                    )
                )
                delivered = True
        inbox.remove(session.folder, message.id)
    if delivered:
        agent.inform(session)
    return delivered
