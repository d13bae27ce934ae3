//! Tests of what the machine's side of the cfg does; the models are in `tests/loom.rs`.

#![cfg(not(anthill_loom))]

mod alarms;
mod foreign;
mod futex;
mod manual_clock;
mod parker;
mod process;
mod thread;
mod waiter;
