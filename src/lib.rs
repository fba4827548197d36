//! mcpnative
