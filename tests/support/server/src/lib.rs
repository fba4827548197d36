//! The scripted MCP server that the tests talk to.
