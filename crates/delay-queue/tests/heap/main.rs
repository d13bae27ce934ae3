//! Tests of `DelayHeap`. What it keeps in memory is in a binary of its own, `memory.rs`.

mod classic;
mod drops;
mod face;
mod ids;
mod large;
mod oracle;
mod order;
mod probation;
mod random;
