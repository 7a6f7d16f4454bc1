"""The host in the user's process: an asyncio program that joins the group of the application, and runs its tasks."""
