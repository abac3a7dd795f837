"""What a node says about itself to those who run it: metrics in OpenMetrics, whether it lives and is ready."""
