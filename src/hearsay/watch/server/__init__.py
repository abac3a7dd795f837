"""What browsers ask: pages, frames as server-sent events, and what people do."""
