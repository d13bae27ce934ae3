//! The containers' behaviours, then random programs compared with a `Vec`.

#![expect(
    clippy::unwrap_used,
    reason = "a push that fails unexpectedly fails the test"
)]

mod both;
mod drops;
mod full;
mod loop_queue;
mod random;
mod stack;
mod twin;
