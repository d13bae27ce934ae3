#![cfg(anthill_loom)]
