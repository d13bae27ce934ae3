//! The pool's behaviour, on threads and a clock moved by hand.
#![cfg(not(anthill_loom))]

mod smoke;
mod support;
