//! Tests of the primitives on the real machine; the models are in `tests/loom.rs`.

#![cfg(not(anthill_loom))]

mod alarms;
mod deadline;
mod foreign;
mod futex;
mod manual_clock;
mod parker;
mod process;
mod thread;
mod waiter;
