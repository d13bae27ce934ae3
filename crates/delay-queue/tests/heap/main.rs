//! Tests of `DelayHeap`. `memory.rs`, a binary of its own, tests its use of memory.

mod classic;
mod drops;
mod face;
mod ids;
mod large;
mod oracle;
mod order;
mod probation;
mod random;
