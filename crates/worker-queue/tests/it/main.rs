//! The containers' behaviours, then random programs beside a twin built on `Vec`.

#![expect(
    clippy::unwrap_used,
    reason = "a refusal that is not expected fails the test"
)]

mod both;
mod drops;
mod full;
mod loop_queue;
mod random;
mod stack;
mod twin;
