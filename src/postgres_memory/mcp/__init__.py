"""The MCP server: a memory as tools for agents, over stdio or HTTP. Speaking the protocol needs the extra ``mcp``."""
