"""Subscriptions: what one hears, where it stands, and its end."""

from __future__ import annotations

from .support import PATIENCE, ServerTest, Told

import mcpnative
from mcpnative import Client, Notification, Status, SubscriptionChange, SubscriptionState


class Subscriptions(ServerTest):
    def setUp(self) -> None:
        self.client = Client(url=self.url)
        self.addCleanup(self.client.close)

    def test_br46_a_handler_of_its_own(self) -> None:
        told, others = Told(), Told()
        self.client.on_notification(others)
        self.client.on_subscription(others)
        self.client.open(PATIENCE)
        call = self.client.subscribe(told, tools=True, uris=["file:///a"])
        active = told.wait_for(1)[0]
        self.assertIsInstance(active, SubscriptionChange)
        self.assertIs(active.state, SubscriptionState.ACTIVE)
        self.assertEqual(active.filter, {"toolsListChanged": True, "resourceSubscriptions": ["file:///a"]})
        self.assertEqual(active.call_id, call.id)
        self.client.call_tool("change", {"what": "prompts"})
        self.client.call_tool("change", {"what": "tools"})
        heard = told.wait_for(2)[1]
        self.assertIsInstance(heard, Notification)
        self.assertEqual((heard.method, heard.call_id), ("notifications/tools/list_changed", call.id))
        self.assertTrue(call.cancel())
        ended = told.wait_for(3)[2]
        self.assertIs(ended.state, SubscriptionState.ENDED)
        self.assertIsInstance(ended.error, mcpnative.CallCancelled)
        self.assertEqual(call.status, Status.E_CANCELLED)
        self.assertEqual(others.all, [])

    def test_the_handlers_of_the_client(self) -> None:
        states, notes = Told(), Told()
        self.client.on_subscription(states)
        self.client.on_notification(notes)
        self.client.open(PATIENCE)
        call = self.client.subscribe(resources=True)
        self.assertIs(states.wait_for(1)[0].state, SubscriptionState.ACTIVE)
        self.client.call_tool("change", {"what": "resources"})
        self.assertEqual(notes.wait_for(1)[0].call_id, call.id)
        with self.assertRaises(mcpnative.ArgumentError):
            self.client.subscribe(uris="file:///a")
