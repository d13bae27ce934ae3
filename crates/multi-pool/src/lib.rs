//! multi-pool
