//! Tests of `DelayQueue`; those of `DelayHeap` are in `tests/heap`.
#![cfg(all(feature = "std", not(anthill_loom)))]

mod smoke;
